"""Walking along lists of any length by short queries: each looks at a bounded part of the table."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from django.db import connections
from django.db.models import F, QuerySet
from django.db.models.lookups import Exact
from django.db.models.sql.where import AND, WhereNode

from ..models import Job
from ..states import Status
from .cursor import BY_KEY, Order, Place

# Where no index answers for a filter, so many rows are looked through at once; each may be a page
# of the disk. The numbers of other tabs than the list's own are not worth as many.
LOOK = 1_000
TAB_LOOK = 200
WALK_LOOK = 5_000
MOST_ROWS = 1_000
TIMED = (Status.CLAIMED, Status.DELAYED)
BY_TIME = Order(("retry_at", "id"))
BY_CLAIM = Order(("queue", "priority", "id"))
# By a queue that is one and the same MariaDB would sort.
BY_CLAIM_IN_QUEUE = Order(("priority", "id"))
# In which an index holds the rows of a state: that of the claims, that of what moves by itself.
ORDERS = {
    Status.READY: BY_CLAIM,
    Status.CLAIMED: BY_TIME,
    Status.DELAYED: BY_TIME,
}
# What an index answers besides the state.
ANSWERED = {Status.READY: {"queue"}}


class Literally(Exact):
    """Equal to a number that stands in the statement itself: by a parameter SQLite finds a partial
    index, too, but then looks at each of its rows in the table."""

    prepare_rhs = False

    def process_rhs(self, compiler: Any, connection: Any) -> tuple[str, tuple[Any, ...]]:
        return f"{int(self.rhs):d}", ()


# By what was asked of the index.
Edges = dict[Any, Place | None]


@dataclass(frozen=True)
class Found:
    """Rows in their order; ``edge`` is where the look ended, if before the end of the list."""

    rows: list[Any]
    edge: Place | None = None
    has_more: bool = False  # beyond the last row, within what was looked at


@dataclass(frozen=True)
class Ordering:
    """A list in its order; ``among`` are the rows of the index that leads along it, where others
    than those of the list are to be passed over."""

    queryset: QuerySet[Any]
    order: Order
    among: QuerySet[Any] | None = None
    # Where looks from the beginning end, by the index: the same for all lists of a page.
    edges: Edges = field(default_factory=dict, compare=False)
    span: int | None = None  # rows that are looked through at once; None = LOOK

    def look(self, limit: int, place: Place | None = None, backwards: bool = False) -> Found:
        """Up to so many rows after a place (or before it), or from the beginning (the end)."""
        rows, edge = self.within(place, backwards)
        found = list(rows.order_by(*self.order.toward(backwards))[: limit + 1])
        shown = found[:limit]
        has_more = len(found) > limit
        return Found(shown[::-1] if backwards else shown, None if has_more else edge, has_more)

    def walk(self, size: int) -> Iterator[list[Any]]:
        """All rows, by so many at once; those that come meanwhile may be among them."""
        place, way = None, replace(self, span=WALK_LOOK)
        while True:
            found = way.look(size, place)
            if found.rows:
                yield found.rows
            place = self.order.place_of(found.rows[-1]) if found.has_more else found.edge
            if place is None:
                return

    def count(self) -> "Count":
        """The rows, at most 1,000; where others are passed over, among those of the first look."""
        rows, edge = _by_queue(self.queryset), None
        if rows is None:
            rows, edge = self.within(None, backwards=False)
            # Without an order, PostgreSQL may look up all entries of the index first.
            rows = rows.order_by(self.order.toward(backwards=False)[0])
        return capped(rows[: MOST_ROWS + 1].count(), edge is not None)

    def within(self, place: Place | None, backwards: bool) -> tuple[QuerySet[Any], Place | None]:
        """The rows that one look sees, and where it ends."""
        rows = self.queryset
        if place is not None:
            rows = self.order.beyond(rows, place, backwards)
        edge = self._edge(place, backwards)
        return rows if edge is None else self.order.until(rows, edge, backwards), edge

    def _edge(self, place: Place | None, backwards: bool) -> Place | None:
        """Where a look ends; one place further there is another row, or was just now."""
        if self.among is None:
            return None
        known = (self.order, self.among.model, str(self.among.query), self.span, place, backwards)
        if known not in self.edges:
            self.edges[known] = self._found_edge(self.among, place, backwards)
        return self.edges[known]

    def _found_edge(
        self, among: QuerySet[Any], place: Place | None, backwards: bool
    ) -> Place | None:
        rows = among.order_by(*self.order.toward(backwards))
        if place is not None:
            rows = self.order.beyond(rows, place, backwards)
        # As rows: values would be sorted as they are read, a time by no index on PostgreSQL.
        span = self.span or LOOK
        last = list(rows.only(*self.order.names)[span - 1 : span + 1])
        return self.order.place_of(last[0]) if len(last) > 1 else None


@dataclass(frozen=True)
class Count:
    number: int
    is_at_least: bool = False

    def __str__(self) -> str:
        return f"{self.number:,}{'+' if self.is_at_least else ''}"


def capped(number: int, is_at_least: bool) -> Count:
    return Count(min(number, MOST_ROWS), is_at_least or number > MOST_ROWS)


def newest(rows: QuerySet[Any]) -> tuple[QuerySet[Any], bool]:
    """Those among the newest 1,000 of the table, and whether it has more."""
    whole = rows.model._base_manager.using(rows.db)
    found, edge = Ordering(rows.order_by(), BY_KEY, whole).within(None, backwards=False)
    return found, edge is not None


def in_state(rows: QuerySet[Any], status: int | None) -> QuerySet[Any]:
    """The rows of a state, as the indexes hold them."""
    if status is None:
        return rows
    rows = rows.filter(Literally(F("status"), status))
    if status in TIMED:
        return rows.filter(retry_at__isnull=False)
    is_partial = connections[rows.db].features.supports_partial_indexes
    # Elsewhere (status, retry_at) ends in the key, and leads along it where there is no time.
    return rows if is_partial or status != Status.BURIED else rows.filter(retry_at__isnull=True)


def ordering_of(
    rows: QuerySet[Any],
    status: Status | None,
    has_states: bool = True,
    edges: Edges | None = None,
) -> Ordering:
    """The list of a state (None = of all) among these rows, in the order of an index.

    ``has_states`` says whether there are indexes over the states, as an archive has none.
    """
    queryset = in_state(rows, status) if has_states else _plainly(rows, status)
    indexed = status if has_states and status != Status.DONE else None
    return along(queryset, order_in(indexed), indexed, edges)


def order_in(indexed: Status | None) -> Order:
    """The order in which the index of a state holds its rows; None = that of the table."""
    return BY_KEY if indexed is None else ORDERS.get(indexed, BY_KEY)


def along(
    queryset: QuerySet[Any], order: Order, indexed: Status | None, edges: Edges | None = None
) -> Ordering:
    """A list in an order in which the index of a state (None = the table's) holds it."""
    whole = in_state(queryset.model._base_manager.using(queryset.db), indexed)
    if order != order_in(indexed):
        return Ordering(queryset, order)
    if order == BY_CLAIM and any(map(_names_one_queue, _leaves(queryset.query.where))):
        order = BY_CLAIM_IN_QUEUE
    among = None if _is_answered(queryset, indexed) else whole
    return Ordering(queryset, order, among, {} if edges is None else edges)


def _by_queue(queryset: QuerySet[Any]) -> QuerySet[Any] | None:
    """The rows of a state and a queue without a word of their times: where no index is partial,
    that which begins with both has them all. None where it does not answer."""
    is_partial = connections[queryset.db].features.supports_partial_indexes
    leaves = _leaves(queryset.query.where)
    rest = [leaf for leaf in leaves if not _is_about_having_a_time(leaf)]
    asked = {_column(leaf) for leaf in rest}
    if is_partial or not issubclass(queryset.model, Job) or asked != {"status", "queue"}:
        return None
    # In the order of that index: MySQL would take another one that begins with the queue.
    found = queryset.order_by("priority")
    found.query.where = WhereNode(rest)
    return found


def _is_about_having_a_time(leaf: Any) -> bool:
    return _column(leaf) == "retry_at" and leaf.lookup_name == "isnull"


def _names_one_queue(leaf: Any) -> bool:
    return _column(leaf) == "queue" and leaf.lookup_name == "exact"


def _plainly(rows: QuerySet[Any], status: Status | None) -> QuerySet[Any]:
    return rows if status is None else rows.filter(status=status)


def _is_answered(queryset: QuerySet[Any], indexed: Status | None) -> bool:
    """Whether nothing is asked of the rows that the index does not know."""
    known = set() if indexed is None else {"status", "retry_at"} | ANSWERED.get(indexed, set())
    asked = {_column(leaf) for leaf in _leaves(queryset.query.where)}
    # By their keys a few rows are found, whatever else is asked of them.
    return "id" in asked or asked <= known


def _leaves(node: Any) -> Iterator[Any]:
    is_all = isinstance(node, WhereNode) and node.connector == AND and not node.negated
    if not is_all:
        yield node
        return
    for child in node.children:
        yield from _leaves(child)


def _column(leaf: Any) -> str | None:
    target = getattr(getattr(leaf, "lhs", None), "target", None)
    is_range = getattr(target, "primary_key", False) and leaf.lookup_name not in {"exact", "in"}
    return None if is_range else getattr(target, "name", None)
