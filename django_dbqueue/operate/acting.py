"""The verbs that people do to many jobs: in chunks, each a compare-and-set, and counted."""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import reduce
from operator import and_
from typing import Any

from django.db import connections
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext_lazy

from ..dialects import dialect_of
from ..lifecycle import operator
from ..lifecycle.limiter import limiter_of
from ..lifecycle.operator import Changed
from ..states import MOVES, Status
from . import walking
from .conditions import in_queues, is_by_keys
from .keyset import Keyset
from .moments import Beginning
from .orders import of_keys

CHUNK_ROWS = 500
ERRORS_AT_ONCE = 50  # which may be long


# By the name of a value: the column that it goes into, so that a job has it already or not.
COLUMNS = {
    "queue": "queue",
    "priority": "priority",
    "due": "retry_at",
    "time_to_run": "time_to_run",
}
# What a job has, too, that was retried at some time.
UNTRIED = {"attempts": 0, "crashes": 0, "losses": 0}
WORDS = {"queue": "to {}", "priority": "to {}", "due": "at {}", "time_to_run": "with {} s to run"}


@dataclass(frozen=True)
class Verb:
    """A verb of queue tables: its ``name`` in code, its ``title`` for the log; ``says`` what
    becomes of each job, in the language that is active. ``values`` are what it is told besides, by
    their names in code."""

    name: str
    title: str
    says: Any
    is_final: bool = False
    values: tuple[tuple[str, Any], ...] = ()

    @property
    def sources(self) -> Collection[Status]:
        """The states from which it takes a job."""
        return MOVES[self.name][0]

    @property
    def news(self) -> Collection[str]:
        """The columns by which a job, or what the verb ends of it, is newer than some moment."""
        return ("created_at", "dequeued_time") if self.name == "release" else ("created_at",)

    @property
    def told(self) -> str:
        """What is done, with the values: what the log and messages say."""
        return " ".join([self.title, *(WORDS[name].format(told(one)) for name, one in self.values)])

    def with_values(self, **values: Any) -> "Verb":
        given = tuple((name, value) for name, value in values.items() if value is not None)
        return replace(self, values=given)

    def undone(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Without those that are as the values say already: what goes on in a list is met again,
        and when the verb is repeated."""
        given = dict(self.values)
        if not given or (self.name == "kick" and "due" not in given):
            return rows
        done = reduce(and_, [_has(rows, name, value) for name, value in given.items()])
        return rows.exclude(done & Q(**UNTRIED) if self.name == "kick" else done)

    def do(self, jobs: Any) -> Changed:
        """By the queryset's own verb: a queue table may have another one, as mail has."""
        if self is DELETE:  # Django's own looks neither at states nor at owners
            return jobs._by_hand(operator.delete)  # type: ignore[no-any-return]
        return getattr(jobs, self.name)(**dict(self.values))  # type: ignore[no-any-return]


def _has(rows: QuerySet[Any], name: str, value: Any) -> Q:
    return in_queues(rows.model, [value]) if name == "queue" else Q(**{COLUMNS[name]: value})


def told(value: Any) -> str:
    """A moment in the time zone of the project."""
    if not isinstance(value, datetime):
        return str(value)
    shown = timezone.localtime(value) if timezone.is_aware(value) else value
    return f"{shown:%Y-%m-%d %H:%M:%S %Z}".strip()


KICK = Verb("kick", "Retry", gettext_lazy("Each becomes ready now, with all its attempts."))
BURY = Verb(
    "bury",
    "Bury",
    gettext_lazy(
        "Each is parked, and does not run until somebody retries it. What runs at the moment goes "
        "on, but cannot write its outcome any more."
    ),
)
RELEASE = Verb(
    "release",
    "Release",
    gettext_lazy(
        "Each is taken away from its worker and becomes ready; what runs at the moment may run "
        "twice."
    ),
)
CANCEL = Verb(
    "cancel",
    "Cancel",
    gettext_lazy(
        "Each is taken out for good: into the archive as it is, or deleted where there is none. "
        "What runs at the moment goes on, but cannot write its outcome any more."
    ),
    is_final=True,
)
MOVE = Verb(
    "move",
    "Move",
    gettext_lazy(
        "Each goes to another queue, and stays in its state. One whose dedup key a job there has, "
        "and one for which that queue has no room, stays where it is."
    ),
)
PRIORITIZE = Verb(
    "prioritize",
    "Prioritize",
    gettext_lazy("Each gets another priority; 0 is the most urgent."),
)
RESCHEDULE = Verb(
    "reschedule",
    "Reschedule",
    gettext_lazy("Each runs at another time, be it sooner or later."),
)
DELETE = Verb(
    "delete",
    "Delete",
    gettext_lazy("Each is deleted, without a copy in the archive."),
    is_final=True,
)


@dataclass
class Progress:
    """What has been done to how many jobs so far; the first of them are remembered.

    ``limit`` is the most jobs that are changed, ``keeps`` how many are remembered; after
    ``seconds`` it stops. ``matches`` is asked of each job, ``errors`` included. ``since``
    leaves out what came after that, as the verb's ``news`` say. With ``is_dry`` nothing is changed,
    only counted.
    """

    verb: Verb
    limit: int | None = None
    keeps: int = 0
    matches: Callable[[Any], bool] | None = None
    since: Beginning | None = None
    is_dry: bool = False
    seconds: float | None = None
    result: Changed | None = None
    taken: int = 0
    first: list[Any] = field(default_factory=list)
    has_more: bool = False
    is_full: bool = False  # there is more, for which there was no room
    began: float = field(default_factory=time.monotonic)

    @property
    def is_late(self) -> bool:
        return self.seconds is not None and time.monotonic() - self.began >= self.seconds

    def do(self, keyset: Keyset) -> None:
        """The verb to these rows, until the limit or the end of the time; not to those that come to
        their end meanwhile, as released jobs that are claimed again do."""
        for page in walking.pages(self._walked(keyset), CHUNK_ROWS):
            if self.is_late and self.taken and (page.rows or not page.is_last):
                self.has_more = True
                return
            rows = self._untried(keyset, [row for row in page.rows if self._is_meant(row)])
            left = len(rows) if self.limit is None else self.limit - self.taken
            was_full = bool(rows[:left]) and self._take(keyset, rows[:left])
            if was_full or rows[left:]:
                self.has_more = True
                self.is_full |= was_full
                return
            if self.is_late and not page.is_last:
                self.has_more = True
                return

    def _is_meant(self, row: Any) -> bool:
        if self.since is not None and self.since.is_before(row, self.verb.news):
            return False
        return self.matches is None or self.matches(row)

    def _untried(self, keyset: Keyset, rows: list[Any]) -> list[Any]:
        """Without those that were retried since and failed once more: they are delayed, and come
        ahead of a walk by their times."""
        delayed = [row.pk for row in rows if row.status == Status.DELAYED]
        if self.since is None or self.verb.name != "kick" or not delayed:
            return rows
        began, tried, jobs = self.since, set[Any](), keyset.queryset.order_by()
        with dialect_of(connections[jobs.db]).decode_leniently():
            for at in range(0, len(delayed), ERRORS_AT_ONCE):
                some = of_keys(jobs, delayed[at : at + ERRORS_AT_ONCE])
                found = some.values_list("pk", "errors")
                tried |= {key for key, errors in found if began.is_before_failure(errors)}
        return [row for row in rows if row.pk not in tried]

    def _walked(self, keyset: Keyset) -> Keyset:
        """What is not done yet, in parts where that is asked of each row."""
        rows, undone = keyset.queryset, self.verb.undone(keyset.queryset)
        is_narrow = rows.query.is_empty() or is_by_keys(rows)
        if undone is not rows and keyset.scanned is None and not is_narrow:
            keyset = replace(keyset, scanned=rows)
        # Only what is named is read whole: mail may be long, and so may errors.
        names = {"pk", "status", *self.verb.news, *keyset.order.names}
        names |= {"errors"} if self.matches else set()
        with dialect_of(connections[rows.db]).decode_leniently():
            return keyset.of(undone.select_related(None).only(*names)).as_of_now()

    def _take(self, keyset: Keyset, rows: list[Any]) -> bool:
        """Whether there was no room for any of them: nor is there for those that follow, but in
        other lanes."""
        queryset = keyset.queryset.order_by()
        taken = [row.pk for row in rows if row.status in self.verb.sources]
        with dialect_of(connections[queryset.db]).decode_leniently():
            named = of_keys(queryset, taken[: max(0, self.keeps - len(self.first))]).in_bulk()
        result = Changed()
        if not self.is_dry:
            result = self.verb.do(of_keys(queryset, [row.pk for row in rows]))
            self.result = result if self.result is None else self.result + result
        self.taken += len(taken)
        self.first += [named[key] for key in taken if key in named]
        has_no_room = not result.changed and bool(getattr(result, "no_room", 0))
        limiter = limiter_of(queryset.model)
        return has_no_room and (limiter is None or not limiter.has_lanes)

    def __str__(self) -> str:
        return str(self.result or Changed())
