"""How many queues are claimed from in one statement: several where each has few jobs.

A claim that comes back short has asked too few; one that is full tells how many it took. So a queue
that fills claims is claimed from alone.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from django.db.utils import IntegrityError

from ..dialects.types import Floor, Row
from ..lifecycle.claim import claim, claim_of_several
from ..lifecycle.table import Table
from ..lifecycle.versions import has_versions
from .buffer import ALLOWANCE

QUEUES_MAX = 64  # in one statement


class Breadth:
    """Of the claims from one queue table."""

    def __init__(self) -> None:
        self.queues = 1

    def emptied(
        self,
        asked: Sequence[str],
        found: Mapping[str, Sequence[Any]],
        is_full: bool,
        lost_some: bool = False,
    ) -> Sequence[str]:
        """A claim from these queues, in this order, found these jobs: which of them have nothing
        left, as far as it could see."""
        if not (is_full or lost_some):
            self.queues = min(2 * self.queues, QUEUES_MAX)
            return asked
        last = max((n for n, name in enumerate(asked) if found.get(name)), default=0)
        self.queues = last + 1
        return [] if lost_some else asked[:last]


def claim_in_turn(
    table: Table,
    queues: list[str],
    limit: int,
    owner: str,
    floors: Sequence[Floor] | None,
    note: Callable[[Table, Sequence[Row]], None],
    keyed: int | None,
) -> tuple[list[str], dict[str, list[Any]]]:
    """The queues from which one claim has taken, and the jobs by queue."""
    table.dialect.lost_some = False
    if len(queues) > 1:
        # A row that nobody can write: the first queue by itself finds out whether it has it.
        with suppress(IntegrityError):
            return queues, claim_of_several(table, queues, limit, owner, ALLOWANCE, note)
    first = queues[0]
    return [first], {first: claim(table, first, limit, owner, ALLOWANCE, floors, note, keyed)}


def may_claim_jointly(table: Table) -> bool:
    """Whether nothing has to be looked at in each queue by itself."""
    return not (may_come_short(table) or table.takes_batches)


def may_come_short(table: Table) -> bool:
    """Whether a claim may leave some of the jobs that it looks at."""
    return table.takes_keys or has_versions(table)
