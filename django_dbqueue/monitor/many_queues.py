"""Which queues are shown of a table that has very many, and what all the others come to."""

from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, zip_longest
from typing import Any

from django.utils.translation import ngettext

from ..lifecycle.backlog import head_ages
from ..lifecycle.limits import late_after
from ..lifecycle.table import Table
from ..metrics.counting import OPEN, PARTS
from ..metrics.counts import QUEUES_MAX
from ..metrics.numbers import Count, Numbers
from ..metrics.time_series import Hour
from ..models.queue import is_among
from ..models.total import OTHERS
from ..states import Status

STATES = PARTS[OPEN]
AGES_MAX = 1_000  # queues of a table whose first ready job is looked at
LATE_MAX = QUEUES_MAX // 2  # that are shown before those that workers name


@dataclass
class OtherQueues:
    """Those of one queue table that are not shown. ``number``: how many are known; ``hours``: by
    name, of those in which something happened; ``is_paused``: with their whole table."""

    table: str
    database: str
    number: Count
    title: str = ""
    counts: dict[Status, Count] = field(default_factory=dict)
    due: int = 0  # of the delayed jobs
    oldest_seconds: float | None = None
    hours: dict[str, Hour] = field(default_factory=dict)
    is_paused: bool = False

    @property
    def named(self) -> str:
        """``50 others``."""
        text = ngettext("%(number)s other", "%(number)s others", self.number.number)
        return text % {"number": self.number.text}

    @property
    def completed(self) -> int:
        return sum(hour.completed for hour in self.hours.values())

    @property
    def failed(self) -> int:
        return sum(hour.failed for hour in self.hours.values())

    @property
    def rate_out(self) -> float:
        return sum(hour.rate_out for hour in self.hours.values())

    def as_dict(self) -> dict[str, Any]:
        """For machines, with the names that each queue has."""
        ages = {status.label: count.seconds_ago for status, count in self.counts.items()}
        return {
            "table": self.table,
            "database": self.database,
            "queues": self.number.number,
            "more_queues": self.number.is_at_least,
            "counts": {status.label: count.number for status, count in self.counts.items()},
            "at_least": [one.label for one, count in self.counts.items() if count.is_at_least],
            "counted_seconds_ago": {
                label: round(age, 1) for label, age in ages.items() if age is not None
            },
            "due": self.due,
            "oldest_seconds": self.oldest_seconds,
            "completed_last_hour": self.completed,
            "failed_last_hour": self.failed,
        }


@dataclass
class ManyQueues:
    """The queues of a table that has more than are shown. ``due``: the delayed jobs whose time has
    come, and ``hours``: what happened in the last one, by the names of queues. ``paused``: by
    themselves, so that nobody waits for them."""

    table: Table
    numbers: Numbers
    names: Set[str]
    due: Mapping[str, int]
    hours: Mapping[str, Hour]
    paused: Collection[str] = ()

    @cached_property
    def ages(self) -> dict[str, float]:
        """For how long the first ready jobs wait."""
        awaited = sorted(self.names, key=lambda name: (self._is_paused(name), name))
        return head_ages(self.table, awaited[:AGES_MAX])

    def _is_paused(self, name: str) -> bool:
        return is_among(self.paused, self.table.model, name)

    def choose(self, asked_for: Iterable[str], served: Iterable[str]) -> list[str]:
        """100 of them, by name: those that are asked for; up to 50 whose first ready job is late by
        the queue's own measure, the latest first, but for paused ones; those that workers name; and
        in turn one whose first ready job waits longest by that measure, one with most jobs that
        have not ended well, one where most failed, and one where most was done."""
        names, model = sorted(self.names), self.table.model
        values: list[dict[str, float]] = [
            {name: age / (late_after(model, name) or 1) for name, age in self.ages.items()},
            {name: self.numbers.about(name) for name in names},
            {name: hour.failed for name, hour in self.hours.items()},
            {name: hour.completed for name, hour in self.hours.items()},
        ]
        rankings = [
            sorted(filter(one.get, one), key=one.__getitem__, reverse=True) for one in values
        ]
        in_turn = [name for turn in zip_longest(*rankings) for name in turn if name is not None]
        late = [one for one in rankings[0] if values[0][one] > 1 and not self._is_paused(one)]
        before = [*sorted(asked_for), *late[:LATE_MAX], *sorted(served)]
        chosen = dict.fromkeys([*before, *in_turn, *names])
        return sorted(islice(chosen, QUEUES_MAX))

    def others(self, shown: Set[str]) -> OtherQueues:
        """What all come to that are not shown."""
        numbers, rest = self.numbers, self.names - shown
        awaited = [one for one in rest & self.ages.keys() if not self._is_paused(one)]
        untold = [(status, OTHERS) for status in STATES if not numbers.is_whole(status)]
        is_more = any(one in numbers.stored.jobs for one in untold)
        return OtherQueues(
            self.table.label,
            self.table.connection.alias,
            Count(len(rest), is_at_least=is_more),
            counts={status: numbers.rest(status, shown) for status in STATES},
            due=sum(jobs for name, jobs in self.due.items() if name in rest),
            oldest_seconds=max((self.ages[name] for name in awaited), default=None),
            hours={name: self.hours[name] for name in rest & self.hours.keys()},
        )
