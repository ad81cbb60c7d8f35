"""A list that goes from any row to the next ones, as fast at its end as at its beginning."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.admin.views.main import ORDER_VAR, ChangeList
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import pgettext_lazy

from ..metrics.numbers import Count
from ..operate import walking
from ..operate.cursor import Cursor, Order, decode, encode, order_of
from ..operate.keyset import Keyset, Page, WindowEnds, keyset_in, keyset_of_parked
from ..states import Status
from . import tabs
from .lists import is_parked_asked
from .pages import AUTO_REFRESH_HEADER

# Where a page of the list begins, and that it may be looked for longer.
BEFORE, AFTER, LONG = "before", "after", "long"
NOT_FILTERS = (BEFORE, AFTER, LONG)
END = "[]"
LONG_WALK_SECONDS = 10  # for one who asks for it, since the first look found too little


@dataclass(frozen=True)
class Step:
    """A link to other rows of the list."""

    name: str
    url: str
    relation: str = ""
    is_further: bool = False


@dataclass(frozen=True)
class Labels:
    first: Any
    previous: Any
    next: Any
    last: Any


NEWEST_FIRST_LABELS = Labels(
    pgettext_lazy("jobs", "Newest"),
    pgettext_lazy("jobs", "Newer"),
    pgettext_lazy("jobs", "Older"),
    pgettext_lazy("jobs", "Oldest"),
)
OTHER_LABELS = Labels(
    pgettext_lazy("page", "First"),
    pgettext_lazy("page", "Previous"),
    pgettext_lazy("page", "Next"),
    pgettext_lazy("page", "Last"),
)


class JobList(ChangeList):
    """Django's, by cursors instead of the numbers of pages wherever the order allows it."""

    # What its template shows, where it goes by cursors.
    steps: tuple[Step, ...] = ()
    counted: Count | None = None
    is_long = False  # somebody let it look for long, which is not to be repeated by itself
    looked_at: Count | None = None  # rows, where no index answers for a filter

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.window_ends: WindowEnds = {}
        super().__init__(*args, **kwargs)

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> Any:
        ignored = [*NOT_FILTERS] if self.sortable_by else [*NOT_FILTERS, ORDER_VAR]
        for name in ignored:
            self.params.pop(name, None)
            self.filter_params.pop(name, None)
        return super().get_queryset(request, exclude_parameters)

    def get_results(self, request: HttpRequest) -> None:
        keyset = self.keyset(request)
        if keyset is None:
            super().get_results(request)
            return
        self.is_secret = self._is_secret(request, keyset.order)
        backwards = BEFORE in request.GET
        text = request.GET.get(BEFORE if backwards else AFTER)
        try:
            cursor = None if text is None else self._cursor_in(keyset, text)
        except ValueError:
            what = _("The address names no place in this list, which is shown from its beginning.")
            # A renewal shows no messages: they would pile up until the next page.
            if AUTO_REFRESH_HEADER not in request.headers:
                messages.warning(request, what)
            cursor, backwards = None, False
        self.is_long = LONG in request.GET
        seconds = LONG_WALK_SECONDS if self.is_long else walking.WALK_SECONDS
        walked = walking.walk(keyset, self.list_per_page, cursor, backwards, seconds)
        page, self.looked_at = walked.page, Count(walked.looked_at)
        self.counted = keyset.count()
        if walked.looked_at and cursor is None and walked.is_whole:
            self.counted = Count(len(page.rows))
        self.result_list = page.rows
        self.result_count = self.counted.number
        self.show_full_result_count, self.full_result_count = False, None
        self.show_admin_actions = True
        self.can_show_all = self.multi_page = False
        self.paginator = self.model_admin.get_paginator(request, self.queryset, self.list_per_page)
        self.steps = tuple(self._steps(keyset.order, page, cursor, backwards))

    @property
    def is_further(self) -> bool:
        """Whether there are rows that were not looked at."""
        return any(step.is_further for step in self.steps)

    def keyset(self, request: HttpRequest) -> Keyset | None:
        """The list as cursors page through it; None where its order has none."""
        if is_parked_asked(request, self.model):
            return keyset_of_parked(self.queryset)
        order = order_of(self.model, self.queryset.query.order_by)
        if order is None:
            return None
        status = tabs.selected_state(request)
        admin: Any = self.model_admin
        has_index = admin.has_states and status not in {None, Status.DONE}
        return keyset_in(self.queryset, order, status if has_index else None, self.window_ends)

    def _is_secret(self, request: HttpRequest, order: Order) -> bool:
        """Whether the order is by what this person may not see: a place in it would tell that."""
        admin: Any = self.model_admin
        return not all(admin.may_find_by(request, name) for name in order.names)

    def _cursor_of_key(self, order: Order, text: str) -> Cursor | None:
        """That of the row with the key, where it is by now."""
        key = decode(self.model, Order(order.names[-1:]), text)
        if key is None:
            return None
        rows = self.model._base_manager.using(self.queryset.db).filter(pk=key[0])
        found: Cursor | None = rows.values_list(*order.names).first()
        if found is None or None in found:
            raise ValueError(text)
        return found

    def _cursor_in(self, keyset: Keyset, text: str) -> Cursor | None:
        if self.is_secret:
            return self._cursor_of_key(keyset.order, text)
        cursor = decode(self.model, keyset.order, text)
        if cursor is not None and cursor[0] is None and keyset.undated is None:
            raise ValueError(text)
        return cursor

    def _steps(
        self, order: Order, page: Page, cursor: Cursor | None, backwards: bool
    ) -> Iterator[Step]:
        """To the first page, the previous, the next and the last."""
        labels = NEWEST_FIRST_LABELS if order.is_descending else OTHER_LABELS
        cursors = [order.cursor_of(row) for row in page.rows]
        first, last = (cursors[0], cursors[-1]) if cursors else (None, None)
        if backwards:
            before = first if page.has_more else page.window_end
            after = None if cursor is None else last
        else:
            before = None if cursor is None else first
            after = last if page.has_more else page.window_end
        if backwards or cursor is not None:
            yield Step(str(labels.first), self.get_query_string())
        for name, parameter, target, relation in (
            (labels.previous, BEFORE, before, "prev"),
            (labels.next, AFTER, after, "next"),
        ):
            if target is None:
                continue
            is_window_end = target == page.window_end
            further = _("Look further, from job %(key)s") % {"key": target[-1]}
            text = further if is_window_end else str(name)
            more = {LONG: "1"} if is_window_end else {}
            place = encode(target[-1:] if self.is_secret else target)
            url = self.get_query_string({parameter: place, **more})
            yield Step(text, url, relation, is_window_end)
        if after is not None:
            yield Step(str(labels.last), self.get_query_string({BEFORE: END}))
