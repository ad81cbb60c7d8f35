"""What is done to one batch of rows: by the code of the admin's actions and of the commands."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from ..fields import aware
from ..lifecycle.operator import Changed
from ..operate import acting
from ..operate.acting import Progress, Verb
from ..operate.by_row import ROW_VERBS, Doer, RowVerb
from ..operate.cursor import BY_KEY
from ..operate.keyset import Keyset
from ..operate.moments import Beginning
from ..operate.orders import of_keys
from ..states import Status

JOB_VERBS = {
    verb.name: verb
    for verb in (
        *(acting.KICK, acting.BURY, acting.RELEASE, acting.CANCEL),
        *(acting.MOVE, acting.PRIORITIZE, acting.RESCHEDULE),
    )
}
COUNTS = ("changed", "skipped", "twins", "no_room", "barred")


class UnknownVerb(ValueError):
    """No app that is installed has it."""


@dataclass(frozen=True)
class Batch:
    """What came of some rows. ``is_full``: nor is there room for those that follow."""

    counts: Mapping[str, int]
    keys: Sequence[Any] = ()  # the first of those that were taken
    is_full: bool = False


@dataclass(frozen=True)
class ByVerb:
    """A verb of queue tables."""

    verb: Verb

    @property
    def title(self) -> str:
        return self.verb.told

    @property
    def sources(self) -> Collection[Status]:
        return self.verb.sources

    @property
    def is_final(self) -> bool:
        return self.verb.is_final

    def do(self, rows: QuerySet[Any], keys: Sequence[Any], doer: Doer, keeps: int) -> Batch:
        progress = Progress(self.verb, keeps=keeps, since=Beginning(aware(doer.since), ticks=None))
        progress.do(Keyset(of_keys(rows.order_by(), keys), BY_KEY))
        result = progress.result or Changed()
        counts = {name: getattr(result, name, 0) for name in COUNTS}
        return Batch(counts, [row.pk for row in progress.first], progress.is_full)


@dataclass(frozen=True)
class ByRow:
    """A verb of an app's own."""

    verb: RowVerb
    sources = None
    is_final = False

    @property
    def title(self) -> str:
        return self.verb.title

    def do(self, rows: QuerySet[Any], keys: Sequence[Any], doer: Doer, keeps: int) -> Batch:
        found = list(of_keys(rows.order_by(), keys).order_by("pk").defer(*self.verb.defers))
        done = self.verb.do(found, doer)
        counts = {"changed": done.changed, "skipped": done.skipped}
        return Batch(counts, [row.pk for row in found[:keeps]] if done.changed else [])


def verb_of(name: str, values: Mapping[str, Any]) -> ByVerb | ByRow:
    """``UnknownVerb`` where no app has it; ``values`` are those of ``stored``."""
    if name in ROW_VERBS:
        return ByRow(ROW_VERBS[name])
    if name not in JOB_VERBS:
        raise UnknownVerb(f"no app that is installed knows the verb {name!r}")
    given = dict(values)
    if "due" in given:
        given["due"] = datetime.fromisoformat(given["due"])
    return ByVerb(JOB_VERBS[name].with_values(**given))


def stored(values: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON that people can read."""
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in values.items()
    }
