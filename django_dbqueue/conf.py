"""The settings: one dict ``DBQUEUE``, environment variables ``DBQUEUE_*``, and these defaults.

Precedence: command line option > environment > ``settings.DBQUEUE`` > default.
"""

import os
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured


class Section(Mapping[str, Any]):
    """The settings of one app: a prefix and a table of defaults, read afresh at every access.

    A value from the environment is converted to the type of its default; one that cannot be
    converted raises ``ImproperlyConfigured`` naming the variable.
    """

    all: list["Section"] = []

    def __init__(self, prefix: str, defaults: dict[str, Any]) -> None:
        self.prefix = prefix
        self.defaults = defaults
        Section.all.append(self)

    def __getitem__(self, name: str) -> Any:
        default = self.defaults[name]
        key = self.prefix + name
        from_environment = os.environ.get(f"DBQUEUE_{key}")
        if from_environment is not None:
            return _convert(key, from_environment, default)
        return getattr(settings, "DBQUEUE", {}).get(key, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self.defaults)

    def __len__(self) -> int:
        return len(self.defaults)


def _convert(key: str, text: str, default: Any) -> Any:
    if isinstance(default, bool):
        return text.lower() in {"1", "true", "yes", "on"}
    if default is None or isinstance(default, str):
        return text
    try:
        return type(default)(text)
    except ValueError:
        kind = type(default).__name__
        raise ImproperlyConfigured(f"DBQUEUE_{key} must be of type {kind}, not {text!r}") from None


def unknown_names() -> dict[str, str]:
    """The keys of ``settings.DBQUEUE`` that mean nothing, and the nearest known name or ''."""
    known = {section.prefix + name for section in Section.all for name in section}
    given = set(getattr(settings, "DBQUEUE", {}))
    return {name: nearest(name, known) for name in sorted(given - known)}


def nearest(name: str, known: set[str]) -> str:
    """The known name that looks most like this one, or ''."""
    return next(iter(get_close_matches(name, sorted(known), n=1)), "")


conf = Section(
    "",
    {
        # runworker
        "PROCESSES": 1,
        "THREADS": 1,
        "BATCH_SIZE": 10,
        "NOTIFY": False,  # PostgreSQL tells idle workers of new jobs
        "SLEEP": 0.5,  # seconds; the longest pause of an idle lane
        "SHUTDOWN_TIMEOUT": 30.0,  # seconds
        # alive or gone
        "BEAT_INTERVAL": 2.0,  # seconds
        "WORKER_TIMEOUT": 10.0,  # seconds without a beat
        # the reaper's turn
        "REAP_INTERVAL": 1.0,  # seconds
    },
)
