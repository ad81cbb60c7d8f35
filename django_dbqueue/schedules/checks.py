"""System check: schedules that are declared in code make sense."""

from collections import Counter
from typing import Any

from django.core.checks import CheckMessage, Error

from ..guard import capture
from .declared import DECLARED, Declared
from .problems import problems_of
from .synchronise import row_of


def check_declared(**_: Any) -> list[CheckMessage]:
    """An error for each declaration that could not be written, or that no job could come of."""
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
    return found


def _problems(declared: Declared) -> str:
    with capture() as outcome:
        row, _ = row_of(declared)
        row.full_clean(validate_unique=False, validate_constraints=False)
    return "" if outcome.error is None else problems_of(outcome.error)
