"""How many jobs may be fetched ahead without taking much memory."""

import sys
from collections.abc import Sequence

from ..dialects.base import Row
from ..lifecycle.table import Table

MOST_BYTES = 16 * 2**20  # fetched ahead, as the rows hold them


class JobSizes:
    """What one claiming thread has seen of each table."""

    def __init__(self) -> None:
        self._mean: dict[tuple[str, str], float] = {}

    def note(self, table: Table, rows: Sequence[Row]) -> None:
        """Large jobs count at once; they are forgotten claim by claim."""
        if rows:
            mean = table.size_of(rows) / len(rows)
            self._mean[table.place] = max(mean, self._mean.get(table.place, 0.0) / 2)

    def most(self, table: Table) -> int:
        """Jobs for one claim, while about as many wait; any number, as long as none was seen."""
        mean = 0.0 if table.takes_batches else self._mean.get(table.place, 0.0)
        return max(1, int(MOST_BYTES / 2 / mean)) if mean else sys.maxsize
