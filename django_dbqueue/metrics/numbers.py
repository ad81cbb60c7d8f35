"""How many jobs are in each queue and state: counted now where they are few, else as they were
counted in the background, with the age of that count."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property

from django.db.models import Sum

from ..lifecycle.backlog import count_ready
from ..lifecycle.table import Table
from ..models import QueueCount, TableCount
from ..models.total import OTHERS
from ..states import Status
from ..texts.wording import ago, number
from .counting import FEW, OPEN, PARTS, age_of, seconds_since
from .counts import count_by_queue


@dataclass(frozen=True)
class Count:
    """So many jobs: now; or at a count ``seconds_ago``; or, with ``is_at_least``, so many or more,
    where they were too many to count now, and nobody has counted them."""

    number: int = 0
    is_at_least: bool = False
    seconds_ago: float | None = None

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.text, self.age)))

    @property
    def text(self) -> str:
        """Without its age."""
        return f"{number(self.number)}{'+' * self.is_at_least}"

    @property
    def age(self) -> str:
        """``20 s ago``; '' where it is of now."""
        if self.seconds_ago is None:
            return ""
        return ago(max(1, round(self.seconds_ago)))

    @property
    def is_exact(self) -> bool:
        return self.seconds_ago is None and not self.is_at_least


def sum_of(counts: Iterable[Count]) -> Count:
    """As old as the oldest of them."""
    parts = list(counts)
    ages = [one.seconds_ago for one in parts if one.seconds_ago is not None]
    is_at_least = any(one.is_at_least for one in parts)
    return Count(sum(one.number for one in parts), is_at_least, max(ages, default=None))


class Stored:
    """What the last counts of a queue table have found."""

    def __init__(self, table: Table) -> None:
        alias = table.connection.alias
        rows = TableCount.objects.using(alias).filter(job_table=table.job_table)
        counted = rows.filter(counted_at__isnull=False)
        counted = counted.annotate(age=seconds_since(alias, "counted_at"))
        ages = dict(counted.values_list("part", "age"))
        self.ages = {
            status: age
            for part, states in PARTS.items()
            for status in states
            if (age := age_of(ages.get(part))) is not None
        }
        self.rows = QueueCount.objects.using(alias).filter(job_table=table.job_table)

    @cached_property
    def jobs(self) -> dict[tuple[int, str], int]:
        """By state and queue."""
        found = self.rows.values_list("status", "queue", "jobs")
        return {(status, queue): jobs for status, queue, jobs in found}

    def names(self, status: Status) -> set[str]:
        return {queue for state, queue in self.jobs if state == status and queue != OTHERS}

    def count(self, status: Status, seen: int, queue: str | None = None) -> Count:
        """Of a queue, or of all of them; ``seen`` is how many there are at the least now."""
        age = self.ages.get(status)
        if age is None or (queue is not None and self._is_untold(status, queue)):
            return Count(seen, is_at_least=True)
        jobs = self.total(status) if queue is None else self.jobs.get((status, queue), 0)
        return Count(jobs, seconds_ago=age) if jobs >= seen else Count(seen, is_at_least=True)

    def total(self, status: Status) -> int:
        if "jobs" in vars(self):
            return sum(jobs for (state, _), jobs in self.jobs.items() if state == status)
        found = self.rows.filter(status=status).aggregate(all_of_them=Sum("jobs"))
        return int(found["all_of_them"] or 0)

    def _is_untold(self, status: Status, queue: str) -> bool:
        """Whether it may be among those that were added up."""
        return (status, OTHERS) in self.jobs and (status, queue) not in self.jobs


class Numbers:
    """The jobs of a queue table that have not ended well, by looks that are bounded: each state is
    counted up to 1,000 jobs, and the ready ones of each queue."""

    def __init__(self, table: Table, most: int | None = None) -> None:
        self.table = table
        self.most = FEW if most is None else most
        self.seen = {state: count_by_queue(table, state, self.most) for state in PARTS[OPEN]}
        self._ready: dict[str, int] = {}

    @cached_property
    def stored(self) -> Stored:
        return Stored(self.table)

    def is_whole(self, status: Status) -> bool:
        """Whether all jobs in a state were counted now."""
        return sum(self.seen[status].values()) <= self.most

    def names(self) -> set[str]:
        """The queues that are known to have jobs."""
        found = {queue for by_queue in self.seen.values() for queue in by_queue}
        for status in self.seen:
            if not self.is_whole(status):
                found |= self.stored.names(status)
        return found

    def of(self, status: Status, queue: str) -> Count:
        if self.is_whole(status):
            return Count(self.seen[status].get(queue, 0))
        seen = self.seen[status].get(queue, 0)
        if status == Status.READY:
            seen = self._count_ready(queue)
            if seen <= self.most:
                return Count(seen)
            seen = self.most
        return self.stored.count(status, seen, queue)

    def about(self, queue: str) -> int:
        """How many jobs of a queue are known of, without another statement."""
        found = 0
        for status, by_queue in self.seen.items():
            counted = 0 if self.is_whole(status) else self.stored.jobs.get((status, queue), 0)
            found += max(counted, by_queue.get(queue, 0))
        return found

    def total(self, status: Status) -> Count:
        """Of all queues."""
        if self.is_whole(status):
            return Count(sum(self.seen[status].values()))
        return self.stored.count(status, self.most)

    def _count_ready(self, queue: str) -> int:
        """Of this queue alone: the index for claims begins with the queue."""
        if queue not in self._ready:
            self._ready[queue] = count_ready(self.table, queue, self.most)
        return self._ready[queue]

    def rest(self, status: Status, named: AbstractSet[str]) -> Count:
        """Of all queues but the named ones, without a statement for each of them."""
        seen = {queue: n for queue, n in self.seen[status].items() if queue not in named}
        if self.is_whole(status):
            return Count(sum(seen.values()))
        told = self.stored.names(status)
        by_name = told if (status, OTHERS) in self.stored.jobs else {*told, *seen}
        found = [
            self.stored.count(status, seen.get(queue, 0), queue)
            for queue in by_name
            if queue not in named
        ]
        return sum_of([*found, self._untold(status, named, seen)])

    def _untold(self, status: Status, named: AbstractSet[str], seen: Mapping[str, int]) -> Count:
        """Of those that were added up, without the named ones among them."""
        together = self.stored.jobs.get((status, OTHERS))
        told, age = self.stored.names(status), self.stored.ages.get(status)
        if together is None:
            return Count(is_at_least=age is None)  # where nobody has counted there may be others
        least = sum(number for queue, number in seen.items() if queue not in told)
        number = together - sum(self.of(status, queue).number for queue in named - told)
        if age is None or max(0, number) < least:
            return Count(least, is_at_least=True)
        return Count(max(0, number), seconds_ago=age)
