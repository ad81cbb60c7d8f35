"""Additions to rows of totals, each with a mark: whether one arrived can be asked afterwards."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from secrets import token_urlsafe
from typing import Any

from django.db.models import F, Value
from django.db.models.functions import Concat, Left
from django.db.utils import Error, OperationalError

from ..models.total import MARK_CHARS, MARKS_CHARS

MARK_BYTES = MARK_CHARS * 3 // 4


class Addition:
    """To one row, which others add to as well; ``before`` are the marks that it had."""

    def __init__(self, row: Any, before: str) -> None:
        self.row, self.before = row, before
        self.mark = token_urlsafe(MARK_BYTES)
        self.is_written = False  # at least once: what followed was the commit

    def write(self, minute: int, columns: Mapping[str, float]) -> None:
        """Within a transaction, as the last of it."""
        marks = Left(Concat(Value(self.mark), F("written")), MARKS_CHARS)
        sums = {name: F(name) + count for name, count in columns.items()}
        self.row.update(changed=minute, written=marks, **sums)
        self.is_written = True

    @contextmanager
    def doubted(self) -> Iterator[None]:
        """While the transaction runs: ``InDoubt`` where an error may be that of the commit."""
        try:
            yield
        except Error as error:
            if self.is_written:
                raise InDoubt(self, error) from error
            raise

    def has_arrived(self) -> bool | None:
        """None: so many others have come since that nobody knows."""
        found = "".join(self.row.values_list("written", flat=True)[:1])
        marks = [found[n : n + MARK_CHARS] for n in range(0, len(found), MARK_CHARS)]
        if self.mark in marks:
            return True
        newest = self.before[:MARK_CHARS]
        is_whole = newest in marks if newest else len(found) < MARKS_CHARS
        return False if is_whole else None


class InDoubt(OperationalError):
    """The connection may have been lost at the commit."""

    def __init__(self, addition: Addition, error: Error) -> None:
        super().__init__(str(error))
        self.addition, self.error = addition, error
