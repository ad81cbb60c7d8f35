"""The verbs that people do to many jobs: in chunks, each a compare-and-set, and counted."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from ..lifecycle import operator
from ..lifecycle.operator import Changed
from ..states import MOVES, Status
from .keyset import Keyset

CHUNK_ROWS = 500


@dataclass(frozen=True)
class Verb:
    """A verb of queue tables; ``says`` what it does to each job."""

    name: str
    says: str
    is_final: bool = False

    @property
    def sources(self) -> Collection[Status]:
        """The states from which it takes a job."""
        return MOVES[self.name][0]

    def do(self, jobs: Any) -> Changed:
        """By the queryset's own verb: a queue table may have another one, as mail has."""
        if self is DELETE:  # Django's own looks neither at states nor at owners
            return jobs._by_hand(operator.delete)  # type: ignore[no-any-return]
        return getattr(jobs, self.name)()  # type: ignore[no-any-return]


KICK = Verb("kick", "becomes ready now, with all its attempts")
BURY = Verb(
    "bury",
    "is parked, and does not run until somebody puts it back to work. What runs at the moment goes "
    "on, but cannot write its outcome any more",
)
RELEASE = Verb(
    "release",
    "is taken away from its worker and becomes ready; what runs at the moment may run twice",
)
CANCEL = Verb(
    "cancel",
    "is taken out for good: into the archive as it is, or deleted where there is none. What runs "
    "at the moment goes on, but cannot write its outcome any more",
    is_final=True,
)
DELETE = Verb("delete", "is deleted, without a copy in the archive", is_final=True)


@dataclass
class Progress:
    """What has been done to how many jobs so far; the first of them are remembered.

    ``limit`` is the most jobs that are changed, ``keeps`` how many are remembered. ``matches`` is
    asked of each job, ``errors`` included. With ``is_dry`` nothing is changed, only counted.
    """

    verb: Verb
    limit: int | None = None
    keeps: int = 0
    matches: Callable[[Any], bool] | None = None
    is_dry: bool = False
    result: Changed | None = None
    taken: int = 0
    first: list[Any] = field(default_factory=list)
    has_more: bool = False

    def do(self, keyset: Keyset) -> None:
        """The verb to these rows, until the limit; not to those that come to their end meanwhile,
        as released jobs that are claimed again do."""
        # Only what is named is read whole: mail may be long, and so may errors.
        names = {"pk", "status", *keyset.order.names, *(["errors"] if self.matches else [])}
        light = keyset.queryset.select_related(None).only(*names)
        for chunk in keyset.of(light).as_of_now().chunks(CHUNK_ROWS):
            rows = [row for row in chunk if self.matches is None or self.matches(row)]
            left = len(rows) if self.limit is None else self.limit - self.taken
            if rows[:left]:
                self._take(keyset, rows[:left])
            if rows[left:]:
                self.has_more = True
                return

    def _take(self, keyset: Keyset, rows: list[Any]) -> None:
        queryset = keyset.queryset.order_by()
        taken = [row.pk for row in rows if row.status in self.verb.sources]
        named = queryset.in_bulk(taken[: max(0, self.keeps - len(self.first))])
        if not self.is_dry:
            result = self.verb.do(queryset.filter(pk__in=[row.pk for row in rows]))
            self.result = result if self.result is None else self.result + result
        self.taken += len(taken)
        self.first += [named[key] for key in taken if key in named]

    def __str__(self) -> str:
        return str(self.result or Changed())
