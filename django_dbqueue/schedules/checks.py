"""System checks: schedules that are declared in code make sense."""

from collections import Counter
from typing import Any

from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as Caution
from django.core.exceptions import ValidationError
from django.db import connections, router

from ..guard import capture
from .declared import DECLARED, Declared
from .models import Schedule
from .problems import problems_of, wrong
from .synchronise import row_of


def check_declared(**_: Any) -> list[CheckMessage]:
    """An error for each declaration that could not be written, or that no job could come of; a
    warning where its jobs may be where no worker looks for them."""
    found: list[CheckMessage] = []
    names = Counter(one.name for one in DECLARED)
    for name, number in names.items():
        if number > 1:
            problem = f"Schedule {name!r} is declared {number} times."
            hint = "Give each schedule a name of its own."
            found.append(Error(problem, hint=hint, id="dbqueue_schedules.E002"))
    for one in DECLARED:
        if problems := _problems(one):
            text = f"Schedule {one.name!r}: {problems}"
            hint = "Correct the call of schedule()."
            found.append(Error(text, hint=hint, id="dbqueue_schedules.E001"))
        elif alias := _unserved(one):
            where = f"a worker without --database has no jobs of it on {alias!r}"
            text = f"Schedule {one.name!r}: {where}."
            hint = "Name in using= a database that has them, or start a worker of it by --database."
            found.append(Caution(text, hint=hint, id="dbqueue_schedules.W001"))
    return found


def _problems(declared: Declared) -> str:
    with capture() as outcome:
        row, alias = row_of(declared)
        row.full_clean(validate_unique=False, validate_constraints=False)
        _check_place(alias)
    return "" if outcome.error is None else problems_of(outcome.error)


def _check_place(alias: str) -> None:
    """No worker writes what is declared for a database that is not there, or has no schedules."""
    if alias not in connections:
        raise wrong("using", f"using: {alias!r} is none of DATABASES")
    if not router.allow_migrate_model(alias, Schedule):
        raise wrong("using", f"using: the routers have no schedules on {alias!r}")


def _unserved(declared: Declared) -> str:
    """The database of one whose jobs only workers that are told of it look for; else nothing."""
    with capture() as asked:
        row, alias = row_of(declared)
        row.target_kind().check_database(row.target, alias)
    # A router may need a database, or a job that says more, to tell.
    return alias if isinstance(asked.error, ValidationError) else ""
