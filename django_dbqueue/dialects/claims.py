"""What a claim asks for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Floor = tuple[int, int]  # priority, key: nothing below it is looked at


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
    strict_order: bool
    # By priority the key to begin at; other priorities are left out. Empty = the whole queue.
    floors: Sequence[Floor] = ()
    # A condition more for candidates, where only some of the ready jobs are to be had.
    only: str = ""
    keyed_limit: int | None = None  # of jobs with concurrency keys
