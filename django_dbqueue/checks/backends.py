"""System checks: a setting may name a backend of ours whose app is not installed."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, register

PACKAGE = __name__.partition(".")[0]


@register()
def check_backends(**_: Any) -> list[CheckMessage]:
    return [
        Error(
            f"{where} names {path!r}, and the app {app} is not installed.",
            hint=f"Add {app!r} to INSTALLED_APPS, and migrate.",
            id="dbqueue.E021",
        )
        for where, path in _named()
        if (app := _app_of(path)) is not None and not apps.is_installed(app)
    ]


def _named() -> Iterator[tuple[str, str]]:
    """The settings that name backends of Django's, and what they name."""
    yield "EMAIL_BACKEND", str(getattr(settings, "EMAIL_BACKEND", ""))
    for name in ("MAILERS", "TASKS"):
        entries = getattr(settings, name, None)
        for alias, entry in entries.items() if isinstance(entries, dict) else ():
            if isinstance(entry, dict):
                yield f"{name}[{alias!r}]", str(entry.get("BACKEND", ""))


def _app_of(path: str) -> str | None:
    """That of ours which has a module; None where it is in no app of ours."""
    package, _, rest = path.partition(".")
    if package != PACKAGE:
        return None
    app = f"{PACKAGE}.{rest.partition('.')[0]}"
    try:
        return app if find_spec(f"{app}.apps") else None
    except ModuleNotFoundError:
        return None  # Django says so when it imports it
