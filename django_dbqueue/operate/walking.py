"""Pages of lists whose filter no index answers: one window after the other is looked through, until
the page is full or its time is over."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from django.db import connections

from ..dialects import dialect_of
from . import keyset as pagination
from .cursor import Cursor
from .keyset import Keyset, Page, WindowEnds

WALK_SECONDS = 0.1  # after which no other window is begun
WINDOW_ROWS_MAX = 50_000
GROWTH = 4  # of a window, next to the one before it
CHUNK_WINDOW_ROWS = 5_000  # of a walk through all of a list


@dataclass(frozen=True)
class Walk:
    """A page, and how many rows were looked at for it, where an index does not lead to its own."""

    page: Page
    looked_at: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether there is nothing beyond its rows."""
        return self.page.is_last


def walk(
    keyset: Keyset,
    limit: int,
    cursor: Cursor | None = None,
    backwards: bool = False,
    seconds: float | None = None,
) -> Walk:
    """Up to so many rows after a cursor, or before it. A filter that few rows pass has several
    windows looked through, for ``seconds`` (None = 0.1); their size follows from what the last one
    took."""
    if keyset.scanned is None:
        return Walk(keyset.page(limit, cursor, backwards))
    give_up = time.monotonic() + (WALK_SECONDS if seconds is None else seconds)
    size, looked_at = keyset.window_rows or pagination.WINDOW_ROWS, 0
    most = keyset.window_rows_max or WINDOW_ROWS_MAX
    found: list[object] = []
    while True:
        began = time.monotonic()
        window = replace(keyset, window_rows=size)
        page = window.page(limit - len(found), cursor, backwards)
        found = page.rows + found if backwards else found + page.rows
        looked_at += size
        now = time.monotonic()
        is_over = page.window_end is None or len(found) >= limit or now >= give_up
        if page.has_more or is_over:
            return Walk(replace(page, rows=found), looked_at)
        cursor = page.window_end
        affordable = size * (give_up - now) / max(now - began, 1e-6)
        size = max(size, min(size * GROWTH, int(affordable), most))


def pages(keyset: Keyset, size: int, cursor: Cursor | None = None) -> Iterator[Page]:
    """All of a list, or all after a cursor, by so many rows at once, and none where a window had
    none; those that come meanwhile may be among them. A row that a hand wrote is read in some way.
    """
    most = min(CHUNK_WINDOW_ROWS, keyset.window_rows_max or CHUNK_WINDOW_ROWS)
    window, ends = min(size, most), WindowEnds()
    while True:
        with dialect_of(connections[keyset.queryset.db]).decode_leniently():
            page = replace(keyset, window_rows=window, window_ends=ends).page(size, cursor)
        yield page
        # Of a long walk there are many windows, and none of them is asked for again.
        ends = {known: end for known, end in ends.items() if known[0] == "first"}
        cursor = after(keyset, page)
        if cursor is None:
            return
        window = min(window * GROWTH if len(page.rows) < size // 2 else size, most)


def after(keyset: Keyset, page: Page) -> Cursor | None:
    """Where the list goes on; None at its end."""
    return keyset.order.cursor_of(page.rows[-1]) if page.has_more else page.window_end


def chunks(keyset: Keyset, size: int) -> Iterator[list[Any]]:
    """The rows of those pages that have some."""
    return (page.rows for page in pages(keyset, size) if page.rows)
