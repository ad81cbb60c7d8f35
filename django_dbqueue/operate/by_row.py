"""Verbs of an app's own that people do to many rows, as mail has one that sends them again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..lifecycle.operator import Changed


@dataclass(frozen=True)
class Doer:
    """For whom a verb is done: by name; ``since`` is when the rows were shown to them, by the clock
    of the rows' database."""

    name: str
    since: datetime


@dataclass(frozen=True)
class RowVerb:
    """``do`` takes up to 500 rows of one table, without the columns ``defers``, which it does not
    need or reads itself, and says how many it changed. What it has done to a row since
    ``Doer.since`` it does not do again: a batch may be repeated.

    ``title`` is for the log, ``label`` for people.
    """

    title: str
    label: Any
    do: Callable[[Sequence[Any], Doer], Changed]
    defers: Sequence[str] = ()


# By the name in code; an app adds its own in ``ready()``.
ROW_VERBS: dict[str, RowVerb] = {}
