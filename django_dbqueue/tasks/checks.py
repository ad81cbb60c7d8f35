"""What is wrong with an entry of ``settings.TASKS``."""

from collections.abc import Iterator, Mapping
from typing import Any

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Error
from django.core.exceptions import ValidationError

from ..conf import nearest
from ..fields import check_name

KEYS = {"BACKEND", "QUEUES", "OPTIONS"}
OPTIONS = {"database", "enqueue_on_commit"}


def check_backend(alias: str, options: Any) -> Iterator[CheckMessage]:
    where = f"TASKS[{alias!r}]"
    yield from _check_entry(where, getattr(settings, "TASKS", {}).get(alias, {}))
    if isinstance(options, Mapping):
        yield from _check_options(where, options)
    else:
        yield Error(f"{where}: OPTIONS must be a dict, not {options!r}.", id="dbqueue_tasks.E004")


def _check_options(where: str, options: Mapping[str, Any]) -> Iterator[CheckMessage]:
    for name in sorted(options.keys() - OPTIONS, key=str):
        guess = nearest(str(name), OPTIONS)
        hint = f"Did you mean {guess!r}?" if guess else f"Known are {', '.join(sorted(OPTIONS))}."
        yield Error(f"{where}: OPTIONS has no {name!r}.", hint=hint, id="dbqueue_tasks.E002")
    database = options.get("database")
    if database is not None and database not in settings.DATABASES:
        yield Error(
            f"{where}: OPTIONS['database'] is {database!r}, which is none of DATABASES.",
            id="dbqueue_tasks.E003",
        )


def _check_entry(where: str, entry: Mapping[str, Any]) -> Iterator[CheckMessage]:
    """What the framework passes over."""
    queues = entry.get("QUEUES", [])
    if isinstance(queues, str):  # to the framework each of its letters is one
        hint = f"Write [{queues!r}]."
        yield Error(f"{where}: QUEUES must be a list.", hint=hint, id="dbqueue_tasks.E005")
        queues = []
    for name in queues:
        try:
            check_name(name, "QUEUES")
        except ValidationError as error:
            yield Error(f"{where}: {error.messages[0]}.", id="dbqueue_tasks.E005")
    for name in sorted(map(str, entry.keys() - KEYS)):
        is_option = name.lower() in OPTIONS
        hint = f"Write it into OPTIONS: {name.lower()!r}." if is_option else ""
        yield checks.Warning(
            f"{where} has {name!r}, which nothing reads.", hint=hint, id="dbqueue_tasks.W001"
        )
