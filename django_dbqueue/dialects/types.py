"""What a dialect is given, and what it answers with."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from django.db.utils import OperationalError

Row = tuple[Any, ...]
Statement = tuple[str, Sequence[Any]]  # and its parameters
Floor = tuple[int, int]  # priority, key: nothing below it is looked at


class ErrorKind(Enum):
    """What a database error asks for."""

    AGAIN = "the transaction was rolled back for another's sake: run it again"
    LOST = "the connection is gone: reconnect; whether a commit arrived is unknown"
    READ_ONLY = "this server takes no writes any more: reconnect, it may have been replaced"
    FULL = "no space is left: stop claiming until completions work again"


class RowsLocked(OperationalError):
    """Our own: transactions hold the rows, and were not waited for."""


@dataclass(frozen=True, slots=True)
class ConnectionRoom:
    """How many connections a server has, or lets an account have, and how many of them are open."""

    limit: int
    used: int
    setting: str  # that says so

    @property
    def free(self) -> int:
        return max(0, self.limit - self.used)


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim, in SQL: the names are quoted, the parameters belong to ``sets``."""

    table: str
    pk: str
    columns: str
    queue: str
    limit: int
    owner: str
    sets: str
    params: Sequence[Any]
    # Whether those that come first are to be taken, however many others claim.
    in_order: bool
    # By priority the key to begin at; other priorities are left out. Empty = the whole queue.
    floors: Sequence[Floor] = ()
    # A condition more for candidates, where only some of the ready jobs are to be had.
    only: str = ""
    keyed_limit: int | None = None  # of jobs with concurrency keys
    # Queues from which to take what there is room for then; ``columns`` end with the queue's.
    others: Sequence[str] = ()

    @property
    def queues(self) -> list[str]:
        """All of them, in their order."""
        return [self.queue, *self.others]

    @property
    def place(self) -> tuple[str, str]:
        """What other claims may meet with."""
        return self.table, "" if self.others else self.queue


@dataclass(frozen=True, slots=True)
class Inserted:
    """A column of an INSERT of many rows: its quoted name, and the SQL that is the same in all. A
    value of ``kind``, a type of the database's, is filled in for ``%s`` in there."""

    name: str
    text: str
    kind: str = ""
