"""For settings of projects that worker processes are given."""

from typing import Any


def deliver_by(project: dict[str, Any], backend: str, **options: Any) -> None:
    """Have this project, the globals of its settings, deliver by a backend of its own."""
    if "MAILERS" in project:
        project["MAILERS"]["smtp"] = {"BACKEND": backend, "OPTIONS": options}
    else:
        project["DBQUEUE"] = {**project["DBQUEUE"], "MAIL_DELIVERY_BACKEND": backend}
