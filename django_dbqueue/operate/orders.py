"""The orders in which indexes hold jobs, and the conditions by which they are found there."""

from collections.abc import Sequence
from typing import Any

from django.db import connections
from django.db.models import F, QuerySet
from django.db.models.lookups import Exact
from django.db.models.sql.where import WhereNode

from ..states import Status
from .conditions import column_of, is_by_keys, is_list_of_keys, leaves_of
from .cursor import BY_FAILURE, BY_KEY, Order

TIMED = (Status.CLAIMED, Status.DELAYED)
# As something is done to all of them: each state before those that its jobs move to by themselves,
# so that none is passed over. What waits for its key comes with the delayed ones, and what is
# claimed comes last, since what waits for its key becomes ready when that ends.
IN_TURN = (Status.DELAYED, Status.READY, Status.BURIED, Status.DONE, Status.CLAIMED)
BY_TIME = Order(("retry_at", "id"))
BY_CLAIM = Order(("queue", "priority", "id"))
BY_END = Order(("finished_at", "id"), is_descending=True)  # of an archive
BY_CONCURRENCY_KEY = Order(("concurrency_key", "priority", "id"))
# By a queue that is one and the same MariaDB would sort.
BY_CLAIM_IN_QUEUE = Order(("priority", "id"))
# In which an index holds the rows of a state: that of the claims, that of what moves by itself,
# that of what failed.
ORDERS = {
    Status.READY: BY_CLAIM,
    Status.CLAIMED: BY_TIME,
    Status.DELAYED: BY_TIME,
    Status.BURIED: BY_FAILURE,
}
# What the index of a state knows in addition to it and the time.
INDEXED = {Status.READY: {"queue"}, Status.BURIED: {"failed_at"}}
_WITHOUT_FAILURE = Order(("id",), is_descending=True, along=("failed_at",))


class LiteralExact(Exact):
    """Equal to a number in the statement itself: by a parameter SQLite finds a partial index, too,
    but then looks at each of its rows in the table."""

    prepare_rhs = False

    def process_rhs(self, compiler: Any, connection: Any) -> tuple[str, tuple[Any, ...]]:
        return f"{int(self.rhs):d}", ()


def is_in_state(status: int) -> LiteralExact:
    return LiteralExact(F("status"), status)


def in_state(rows: QuerySet[Any], status: int | None) -> QuerySet[Any]:
    """The rows of a state, as the indexes hold them."""
    if status is None or _is_asked(rows, status):
        return rows
    # For a thousand keys PostgreSQL would look at all jobs of a state: so that no index has it.
    column = F("status") + 0 if is_by_keys(rows) else F("status")
    rows = rows.filter(LiteralExact(column, status))
    if status in TIMED:
        return rows.filter(retry_at__isnull=False)
    # Elsewhere (status, retry_at, failed_at) leads to them where there is no time to move.
    is_partial = connections[rows.db].features.supports_partial_indexes
    return rows if is_partial or status != Status.BURIED else rows.filter(retry_at__isnull=True)


def of_keys(rows: QuerySet[Any], keys: Sequence[Any]) -> QuerySet[Any]:
    """Those of the rows that have one of these keys, by their keys: an index over a state may lead
    through all rows in it. By two lists of keys PostgreSQL would read the whole table."""
    rest: list[Any] = []
    for leaf in leaves_of(rows):
        if is_list_of_keys(leaf):
            asked = set(leaf.rhs)
            keys = [key for key in keys if key in asked]
        elif isinstance(leaf, LiteralExact) and column_of(leaf):
            rest.append(LiteralExact(leaf.lhs + 0, leaf.rhs))
        else:
            rest.append(leaf)
    found = rows.all()
    found.query.where = WhereNode(rest)
    return found.filter(pk__in=keys)


def _is_asked(rows: QuerySet[Any], status: int) -> bool:
    """Whether they are of this state already: what is asked twice PostgreSQL takes for rare. What
    waits for its concurrency key is delayed, and not among these."""
    leaves = list(leaves_of(rows))
    is_timed = any(column_of(leaf) == "retry_at" and leaf.rhs is False for leaf in leaves)
    is_of_state = any(isinstance(leaf, LiteralExact) and leaf.rhs == status for leaf in leaves)
    return is_of_state and (is_timed or status not in TIMED)


def index_order(indexed: Status | None) -> Order:
    """The order in which the index of a state holds its rows; None = that of the table."""
    return BY_KEY if indexed is None else ORDERS.get(indexed, BY_KEY)


def columns_of(order: Order, alias: str, backwards: bool) -> list[str]:
    """For ``order_by``. An index that is whole holds what moves by its time, then by when it
    failed, which is never what moves, and then by the key."""
    names = order.columns(backwards)
    if order == BY_TIME and not connections[alias].features.supports_partial_indexes:
        names.insert(1, names[0].replace("retry_at", "failed_at"))
    return names


def without_time(alias: str) -> Order:
    """The newest first, of rows that have no ``failed_at``: PostgreSQL takes an index over it only
    where it is named, too, and MariaDB would sort then."""
    is_partial = connections[alias].features.supports_partial_indexes
    return _WITHOUT_FAILURE if is_partial else BY_KEY
