"""What a target asks for by ``on_commit()``: an error there comes when the tick is written."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from django.db import connections

from ..guard import capture
from .models import Schedule

logger = logging.getLogger("django_dbqueue")


class Hooks:
    """Those of one transaction. An error in one undoes nothing: it is logged, and the others, which
    may be those of other schedules, are called all the same."""

    def __init__(self, using: str) -> None:
        self._connection = connections[using]
        self._begin = len(self._connection.run_on_commit)
        self._whose: list[Schedule] = []

    def note(self, schedule: Schedule) -> None:
        """What was asked for since the last one is that schedule's."""
        number = len(self._connection.run_on_commit) - self._begin
        self._whose += [schedule] * (number - len(self._whose))

    def fence(self) -> None:
        """Once all has been asked for: until then Django, and others, find their own there."""
        asked: list[Any] = self._connection.run_on_commit
        begin, end = self._begin, self._begin + len(self._whose)
        asked[begin:end] = [
            (savepoints, partial(_call, hook, schedule), *rest)
            for (savepoints, hook, *rest), schedule in zip(
                asked[begin:end], self._whose, strict=True
            )
        ]


def _call(hook: Callable[[], object], schedule: Schedule) -> None:
    with capture() as outcome:
        hook()
    if outcome.error is not None:
        message = "schedule %s: it has ticked, and what was to follow its commit failed"
        logger.error(message, schedule, exc_info=outcome.error)
