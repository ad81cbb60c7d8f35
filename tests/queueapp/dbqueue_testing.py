"""What a test may ask for besides queue tables: functions that are called by jobs."""

from collections.abc import Callable
from typing import Any

from .called import FUNCTIONS, Called

Values = Callable[[Called], dict[str, Any] | None]


def jobs_of(asked: Any) -> tuple[type[Called], str, Values] | None:
    if asked not in FUNCTIONS.values():
        return None
    name = asked.__name__

    def values(job: Called) -> dict[str, Any] | None:
        return {"kwargs": job.arguments} if job.function == name else None

    return Called, f"call of {name}", values
