"""Keyset pagination of lists of any length: each query scans a bounded part of the table."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from django.db import connections
from django.db.models import QuerySet

from ..dialects import dialect_of
from ..metrics.numbers import Count
from ..models import Job
from ..states import Status
from .conditions import (
    by_queue_index,
    column_of,
    is_bound,
    leaves_of,
    scanned_of_failure,
    those_buried,
    with_leaves,
    without_bound,
)
from .cursor import BY_FAILURE, BY_KEY, Cursor, Order
from .orders import (
    BY_CLAIM,
    BY_CLAIM_IN_QUEUE,
    BY_CONCURRENCY_KEY,
    BY_END,
    INDEXED,
    columns_of,
    in_state,
    index_order,
    is_in_state,
    of_keys,
    without_time,
)

# Rows that one query scans where no index answers for a filter: each may be a page of the disk.
WINDOW_ROWS = 1_000
TAB_WINDOW_ROWS = 200  # for the numbers of other tabs than the list's own
KEYS_OF_WINDOW_MAX = 2_000  # where it is asked for by its keys
COUNTED_ROWS_MAX = 1_000

# What is in a window, where that is asked for by its keys, and where it ends.
WindowEnd = tuple[list[Any] | None, Cursor | None]
WindowEnds = dict[Any, WindowEnd]  # by what was asked of the index
NO_END: WindowEnd = None, None


@dataclass(frozen=True)
class Page:
    """Rows in their order; ``window_end`` is where the scan ended, if before the list's end."""

    rows: list[Any]
    window_end: Cursor | None = None
    has_more: bool = False  # beyond the last row, within the window

    @property
    def is_last(self) -> bool:
        return self.window_end is None and not self.has_more


@dataclass(frozen=True)
class Keyset:
    """A list in its order; ``scanned`` are the rows of the index in that order, where others than
    those of the list are to be passed over: then each query sees a window of them."""

    queryset: QuerySet[Any]
    order: Order
    scanned: QuerySet[Any] | None = None
    window_ends: WindowEnds = field(default_factory=dict, compare=False)  # of all lists of a page
    window_rows: int | None = None  # None = WINDOW_ROWS
    # Of rows without the order's time, which come after all others, by their keys.
    undated: Order | None = None

    def page(self, limit: int, cursor: Cursor | None = None, backwards: bool = False) -> Page:
        """Up to so many rows after a cursor (or before it), or from the beginning (the end)."""
        if self.undated is not None:
            return self._page_of_parts(limit, cursor, backwards)
        rows, window_end = self.window(cursor, backwards)
        found = list(self._in_order(rows, backwards)[: limit + 1])
        shown = found[:limit]
        has_more = len(found) > limit
        return Page(shown[::-1] if backwards else shown, None if has_more else window_end, has_more)

    def _page_of_parts(self, limit: int, cursor: Cursor | None, backwards: bool) -> Page:
        is_undated = backwards if cursor is None else cursor[0] is None
        dated, undated = self.parts()
        first, second = (undated, dated) if is_undated else (dated, undated)
        if is_undated and cursor is not None:
            cursor = cursor[1:]
        page = _in_whole(first.page(limit, cursor, backwards), is_undated)
        if page.has_more or page.window_end is not None or is_undated != backwards:
            return page
        more = _in_whole(second.page(limit - len(page.rows), None, backwards), not is_undated)
        return replace(more, rows=more.rows + page.rows if backwards else page.rows + more.rows)

    def parts(self) -> tuple["Keyset", "Keyset"]:
        """The rows that have the order's time, and those without one."""
        name, scanned = f"{self.order.names[0]}__isnull", self.scanned
        parts = []
        for is_null, order in ((False, self.order), (True, self.undated or BY_KEY)):
            rows = self.queryset.filter(**{name: is_null})
            others = None if scanned is None else scanned.filter(**{name: is_null})
            parts.append(replace(self, queryset=rows, scanned=others, order=order, undated=None))
        dated, undated = parts
        if undated.scanned is not None and undated._first_of(undated.scanned) is None:
            undated = replace(undated, queryset=self.queryset.none(), scanned=None)
        return dated, undated

    def _first_of(self, scanned: QuerySet[Any]) -> Cursor | None:
        """Of all rows of a table most have no such time, so PostgreSQL expects that most of these
        have none, either, and looks at all of them for those that pass a filter."""
        known = "first", str(scanned.query)
        if known not in self.window_ends:
            rows = self._in_order(scanned, backwards=False).only(*self.order.names)[:1]
            self.window_ends[known] = None, next(map(self.order.cursor_of, rows), None)
        return self.window_ends[known][1]

    def of(self, queryset: QuerySet[Any]) -> "Keyset":
        """The same, of rows that are read in another way."""
        return replace(self, queryset=queryset)

    def as_of_now(self) -> "Keyset":
        """Without what comes beyond its end from here on; newer keys come before its beginning."""
        if self.order.is_descending:
            return self
        rows = self.queryset if self.scanned is None else self.scanned
        last = self._in_order(rows, backwards=True).only(*self.order.names)[:1]
        end = next(map(self.order.cursor_of, last), None)
        if end is None or None in end:  # a hand wrote what is no instant
            return self
        up_to = partial(self.order.up_to, cursor=end, backwards=False)
        scanned = None if self.scanned is None else up_to(self.scanned)
        return replace(self, queryset=up_to(self.queryset), scanned=scanned)

    def count(self) -> Count:
        """The rows, at most 1,000; where others are passed over, those in the first window."""
        rows, window_end = by_queue_index(self.queryset), None
        if rows is None and self.undated is not None and self.scanned is not None:
            dated, undated = self.parts()
            found = dated.count()
            more = Count(0) if found.is_at_least else undated.count()
            return capped(found.number + more.number, found.is_at_least or more.is_at_least)
        if rows is None:
            rows, window_end = self.window(None, backwards=False)
            # Without an order, PostgreSQL may look up all of an index first: at its end, no time.
            backwards = self.order.is_descending and self.undated is not None
            rows = rows.order_by(self.order.columns(backwards)[0])
        return capped(rows[: COUNTED_ROWS_MAX + 1].count(), window_end is not None)

    def _in_order(self, rows: QuerySet[Any], backwards: bool) -> QuerySet[Any]:
        return rows.order_by(*columns_of(self.order, rows.db, backwards))

    @property
    def window_rows_max(self) -> int | None:
        """Of a window that is asked for by its keys: SQLite would go on to the end of a queue's
        priority, which most jobs have, and PostgreSQL may expect that to be most of the table."""
        bounds_rows = dialect_of(connections[self.queryset.db]).bounds_rows
        return None if bounds_rows or "priority" not in self.order.names else KEYS_OF_WINDOW_MAX

    def window(self, cursor: Cursor | None, backwards: bool) -> tuple[QuerySet[Any], Cursor | None]:
        """The rows that one query sees, and where it ends."""
        rows, scanned = self.queryset, self.scanned
        if cursor is not None:
            rows = self.order.after(rows, cursor, backwards)
        keys, end = self._window_in(scanned, cursor, backwards) if scanned is not None else NO_END
        if end is None:
            return rows, None
        if keys is not None:
            return self.order.up_to(of_keys(self.queryset, keys), end, backwards), end
        # The end is within what was asked for: by the wider bound SQLite would read beyond it.
        lookups = {"gt", "gte"} if self.order.is_descending != backwards else {"lt", "lte"}
        return self.order.up_to(without_bound(rows, self.order, lookups), end, backwards), end

    def _window_in(
        self, scanned: QuerySet[Any], cursor: Cursor | None, backwards: bool
    ) -> WindowEnd:
        """Next to a window's end there is another row, or was just now. Its keys are those of one
        moment: what comes into it meanwhile pushes nothing out."""
        size = self.window_rows or WINDOW_ROWS
        known = (self.order, scanned.model, str(scanned.query), size, cursor, backwards)
        if known not in self.window_ends:
            rows = self._from(scanned, cursor, backwards)
            if self.window_rows_max is not None:
                seen = list(rows.values_list(*self.order.names)[: size + 1])
                end = seen[size - 1] if len(seen) > size else None
                self.window_ends[known] = [one[-1] for one in seen[:size]], end
            else:
                # As rows: a time as a value would be sorted by no index on PostgreSQL.
                last = list(rows.only(*self.order.names)[size - 1 : size + 1])
                self.window_ends[known] = None, self.order.cursor_of(last[0]) if last[1:] else None
        return self.window_ends[known]

    def _from(self, rows: QuerySet[Any], cursor: Cursor | None, backwards: bool) -> QuerySet[Any]:
        found = self._in_order(rows, backwards)
        return found if cursor is None else self.order.after(found, cursor, backwards)


def _in_whole(page: Page, is_undated: bool) -> Page:
    """A page of one part, with its end as that of a list of both."""
    end = page.window_end
    return replace(page, window_end=(None, *end)) if is_undated and end is not None else page


def capped(number: int, is_at_least: bool) -> Count:
    return Count(min(number, COUNTED_ROWS_MAX), is_at_least or number > COUNTED_ROWS_MAX)


def keyset_of(
    rows: QuerySet[Any],
    status: Status | None,
    has_states: bool = True,
    window_ends: WindowEnds | None = None,
) -> Keyset:
    """The list of a state (None = of all) in an index's order; an archive has none of states."""
    if has_states:
        rows = in_state(rows, status)
    elif status is not None:
        rows = rows.filter(status=status)
    indexed = status if has_states and status != Status.DONE else None
    return keyset_in(rows, index_order(indexed), indexed, window_ends)


def keyset_of_parked(rows: QuerySet[Any]) -> Keyset:
    """Those that wait for their concurrency keys, which are among no delayed ones in an index."""
    parked = {"retry_at__isnull": True, "concurrency_key__isnull": False}
    found = rows.filter(is_in_state(Status.DELAYED), **parked)
    asked = {column_of(leaf) for leaf in leaves_of(found)}
    if "id" in asked or asked <= {"status", "retry_at", "concurrency_key"}:
        return Keyset(found, BY_CONCURRENCY_KEY)
    whole = rows.model._base_manager.using(rows.db)
    scanned = whole.filter(is_in_state(Status.DELAYED), **parked)
    return Keyset(found, BY_CONCURRENCY_KEY, scanned)


def keyset_of_undated(rows: QuerySet[Any]) -> Keyset:
    """The buried ones of which nobody wrote down when they failed, the newest first."""
    whole = in_state(rows.model._base_manager.using(rows.db), Status.BURIED)
    of_all = Keyset(in_state(rows, Status.BURIED), BY_FAILURE, whole, undated=without_time(rows.db))
    return of_all.parts()[1]


def keyset_in(
    queryset: QuerySet[Any],
    order: Order,
    indexed: Status | None,
    window_ends: WindowEnds | None = None,
) -> Keyset:
    """A list in an order, by the index of a state (None = the table's) where that is its order."""
    if queryset.query.is_empty():
        return Keyset(queryset, order)
    leaves = [(column_of(leaf), leaf) for leaf in leaves_of(queryset)]
    of_failure = any(name == "failure" and leaf.lookup_name == "exact" for name, leaf in leaves)
    if of_failure and issubclass(queryset.model, Job):  # an archive has no index of it
        return _of_failure(queryset, indexed)
    if order not in {index_order(indexed), BY_END}:
        return Keyset(queryset, order)
    of_queue = [leaf for name, leaf in leaves if name == "queue" and leaf.lookup_name == "exact"]
    if order == BY_CLAIM and of_queue:
        order = BY_CLAIM_IN_QUEUE
    known = set() if indexed is None else {"status", "retry_at"} | INDEXED.get(indexed, set())
    bounds = [leaf for _, leaf in leaves if is_bound(leaf, order)]
    asked = {name for name, leaf in leaves if leaf not in bounds}
    undated = without_time(queryset.db) if order == BY_FAILURE and not bounds else None
    ends = {} if window_ends is None else window_ends
    keyset = Keyset(queryset, order, None, ends, undated=undated)
    # By their keys a few rows are found, whatever else is asked of them.
    if "id" in asked or asked <= known:
        return keyset
    whole = in_state(queryset.model._base_manager.using(queryset.db), indexed)
    # Only the rows of one queue are in that order.
    bounds += of_queue if order == BY_CLAIM_IN_QUEUE else []
    return replace(keyset, scanned=with_leaves(whole, bounds))


def keyset_of_retried(rows: QuerySet[Any]) -> Keyset:
    """The rows with one failure that are tried again, in whatever state."""
    if any(is_bound(leaf, BY_FAILURE) for leaf in leaves_of(rows)):
        return Keyset(rows.none(), BY_KEY)  # what says when it failed is buried
    found = rows.filter(failed_at__isnull=True)
    return Keyset(found, without_time(rows.db), scanned_of_failure(found))


def _of_failure(queryset: QuerySet[Any], status: Status | None) -> Keyset:
    """The rows with one failure, by its index: those who are buried in the order of that, the
    newest first, and then those that are tried again. Where more is asked, it is asked of a window
    of the failure's rows at a time."""
    if status == Status.BURIED:
        buried = those_buried(queryset)
        return Keyset(buried, BY_FAILURE, scanned_of_failure(buried))
    if status is not None:
        return keyset_of_retried(queryset)
    leaves = list(leaves_of(queryset))
    if any(column_of(leaf) == "failed_at" and leaf.lookup_name == "isnull" for leaf in leaves):
        return keyset_of_retried(queryset)
    has_bounds = any(is_bound(leaf, BY_FAILURE) for leaf in leaves)
    undated = None if has_bounds else without_time(queryset.db)
    return Keyset(queryset, BY_FAILURE, scanned_of_failure(queryset), undated=undated)
