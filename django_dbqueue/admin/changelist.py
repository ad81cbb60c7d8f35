"""A list that goes from any row to the next ones, as fast at its end as at its beginning."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.admin.views.main import ORDER_VAR, ChangeList
from django.http import HttpRequest

from ..states import Status
from . import tabs
from .cursor import BY_KEY, Order, Place, order_of, place_in, text_of
from .pagination import Count, Edges, Found, Ordering, along

BEFORE, AFTER = "before", "after"
END = "[]"

if TYPE_CHECKING:  # at run time it takes no parameters
    Base = ChangeList
else:
    Base = ChangeList


@dataclass(frozen=True)
class Step:
    """A link to other rows of the list."""

    name: str
    url: str
    relation: str = ""
    is_further: bool = False


@dataclass(frozen=True)
class Words:
    first: str
    back: str
    on: str
    last: str
    further: str


BY_KEY_WORDS = Words("Newest", "Newer", "Older", "Oldest", "Look further, from job")
OTHER_WORDS = Words("First", "Previous", "Next", "Last", "Look further, from job")


class JobList(Base):
    """Django's, by places instead of the numbers of pages wherever the order allows it."""

    # What its template shows, where it goes by places.
    steps: tuple[Step, ...] = ()
    counted: Count | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.edges: Edges = {}
        super().__init__(*args, **kwargs)

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> Any:
        unheeded = [BEFORE, AFTER] if self.sortable_by else [BEFORE, AFTER, ORDER_VAR]
        for name in unheeded:
            self.params.pop(name, None)
            self.filter_params.pop(name, None)
        return super().get_queryset(request, exclude_parameters)

    def get_results(self, request: HttpRequest) -> None:
        way = self.way(request)
        if way is None:
            super().get_results(request)
            return
        place, backwards = self._place(request, way)
        found = way.look(self.list_per_page, place, backwards)
        self.counted = way.count()
        self.result_list = found.rows
        self.result_count = self.counted.number
        self.show_full_result_count, self.full_result_count = False, None
        self.show_admin_actions = True
        self.can_show_all = self.multi_page = False
        self.paginator = self.model_admin.get_paginator(request, self.queryset, self.list_per_page)
        self.steps = tuple(self._steps(way.order, found, place, backwards))

    @property
    def is_further(self) -> bool:
        """Whether there are rows that were not looked at."""
        return any(step.is_further for step in self.steps)

    def way(self, request: HttpRequest) -> Ordering | None:
        """The list as it can be walked along; None where its order has no places."""
        ordering = self.queryset.query.order_by
        order = order_of(self.model, ordering)
        status = tabs.selected_state(request)
        if order is None:
            return None
        admin: Any = self.model_admin
        has_index = admin.has_states and status not in {None, Status.DONE}
        return along(self.queryset, order, status if has_index else None, self.edges)

    def _place(self, request: HttpRequest, way: Ordering) -> tuple[Place | None, bool]:
        backwards = BEFORE in request.GET
        text = request.GET.get(BEFORE if backwards else AFTER)
        if text is None:
            return None, False
        try:
            return place_in(self.model, way.order, text), backwards
        except ValueError:
            what = "The address names no place in this list, which is shown from its beginning."
            messages.warning(request, what)
            return None, False

    def _steps(
        self, order: Order, found: Found, place: Place | None, backwards: bool
    ) -> Iterator[Step]:
        """To the beginning, back, on, and to the end."""
        words = BY_KEY_WORDS if order == BY_KEY else OTHER_WORDS
        back, on = self._neighbours(order, found, place, backwards)
        if backwards or place is not None:
            yield Step(words.first, self.get_query_string())
        for name, parameter, target, relation in (
            (words.back, BEFORE, back, "prev"),
            (words.on, AFTER, on, "next"),
        ):
            if target is None:
                continue
            is_edge = target == found.edge
            text = f"{words.further} {target[-1]}" if is_edge else name
            url = self.get_query_string({parameter: text_of(target)})
            yield Step(text, url, relation, is_edge)
        if on is not None:
            yield Step(words.last, self.get_query_string({BEFORE: END}))

    def _neighbours(
        self, order: Order, found: Found, place: Place | None, backwards: bool
    ) -> tuple[Place | None, Place | None]:
        """The places before which and after which the rows on either side are."""
        places = [order.place_of(row) for row in found.rows]
        first, last = (places[0], places[-1]) if places else (None, None)
        came_from = None if place is None else (last if backwards else first)
        if backwards:
            return (first if found.has_more else found.edge), came_from
        return came_from, (last if found.has_more else found.edge)
