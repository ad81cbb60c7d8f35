"""For settings of projects that worker processes are given."""


def deliver_by(project, backend, **options):
    """Have this project, the globals of its settings, deliver by a backend of its own."""
    if "MAILERS" in project:
        project["MAILERS"]["smtp"] = {"BACKEND": backend, "OPTIONS": options}
    else:
        project["DBQUEUE"] = {**project["DBQUEUE"], "MAIL_DELIVERY_BACKEND": backend}
