"""What a list is asked for: its conditions, as far as an index may answer them."""

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from django.db import connections
from django.db.models import Q, QuerySet
from django.db.models.sql.where import AND, WhereNode

from ..fields import DbNow
from ..lifecycle.limiter import SEPARATOR, base_of, limiter_of
from ..models import Job
from ..states import Status
from .cursor import Order


def asked_queue(rows: QuerySet[Any]) -> tuple[bool, Any]:
    """Whether rows are asked for by nothing but a queue, or by nothing; and by which queue."""
    leaves = list(leaves_of(rows))
    if rows.query.is_sliced or rows.query.extra or len(leaves) > 1:
        return False, None
    is_by_queue = all(column_of(one) == "queue" and one.lookup_name == "exact" for one in leaves)
    return is_by_queue, leaves[0].rhs if leaves and is_by_queue else None


def in_queues(model: type[Any], names: Collection[str]) -> Q:
    """Jobs of these queues, and of their lanes."""
    found = Q(queue__in=names) if len(names) > 1 else Q(queue=next(iter(names)))
    limiter = limiter_of(model)
    for name in names if limiter is not None and limiter.has_lanes else ():
        if base_of(model, name) == name:
            beyond = name + chr(ord(SEPARATOR) + 1)
            found |= Q(queue__gt=name + SEPARATOR, queue__lt=beyond)
    return found


def by_queue_index(queryset: QuerySet[Any]) -> QuerySet[Any] | None:
    """The rows of a state and a queue without a condition on their times: where no index is
    partial, the one that begins with both has them all. None where that does not answer."""
    if connections[queryset.db].features.supports_partial_indexes:
        return None
    leaves = list(leaves_of(queryset))
    states = [leaf.rhs for leaf in leaves if column_of(leaf) == "status"]
    rest = [leaf for leaf in leaves if len(states) != 1 or not _is_implied(leaf, states[0])]
    if not issubclass(queryset.model, Job) or set(map(column_of, rest)) != {"status", "queue"}:
        return None
    # In the order of that index: MySQL would take another one that begins with the queue.
    found = queryset.order_by("priority")
    found.query.where = WhereNode(rest)
    return found


def _is_implied(leaf: Any, status: Any) -> bool:
    """Whether a condition on the time at which jobs move says no more than their state."""
    has_time = status in (Status.CLAIMED, Status.DELAYED)
    is_of_time = column_of(leaf) == "retry_at" and leaf.lookup_name == "isnull"
    return is_of_time and bool(leaf.rhs) is not has_time


def _says_buried(leaf: Any) -> bool:
    is_state = column_of(leaf) == "status" and leaf.lookup_name == "exact"
    return leaf.rhs == Status.BURIED if is_state else _is_implied(leaf, Status.BURIED)


def leaves_of(rows: QuerySet[Any]) -> Iterator[Any]:
    """The conditions that all of the rows meet; as nodes those on a joined table's columns, and on
    what the database works out, so that nobody takes them for values of the table's own."""
    for leaf in _leaves(rows.query.where):
        alias = getattr(getattr(leaf, "lhs", None), "alias", None)
        is_joined = alias is not None and alias != rows.query.base_table
        yield WhereNode([leaf]) if is_joined or _is_worked_out(leaf) else leaf


def _is_worked_out(leaf: Any) -> bool:
    value = getattr(leaf, "rhs", None)
    is_known = isinstance(value, DbNow) or getattr(leaf, "lookup_name", "") == "in"
    return hasattr(value, "resolve_expression") and not is_known


def _leaves(node: Any) -> Iterator[Any]:
    is_all = isinstance(node, WhereNode) and node.connector == AND and not node.negated
    if not is_all:
        yield node
        return
    for child in node.children:
        yield from _leaves(child)


def column_of(leaf: Any) -> str | None:
    target = getattr(getattr(leaf, "lhs", None), "target", None)
    is_range = getattr(target, "primary_key", False) and leaf.lookup_name not in {"exact", "in"}
    return None if is_range else getattr(target, "name", None)


def is_by_keys(rows: QuerySet[Any]) -> bool:
    """Whether they are asked for by their keys, one by one."""
    return any(column_of(leaf) == "id" for leaf in leaves_of(rows))


def is_list_of_keys(leaf: Any) -> bool:
    is_of_keys = column_of(leaf) == "id" and leaf.lookup_name == "in"
    return is_of_keys and isinstance(leaf.rhs, list | tuple | set | frozenset)


def is_bound(leaf: Any, order: Order) -> bool:
    """Whether it says where rows begin or end in this order."""
    target = getattr(getattr(leaf, "lhs", None), "target", None)
    name = getattr(target, "name", None)
    return name == order.names[0] and leaf.lookup_name in {"gt", "gte", "lt", "lte"}


def without_bound(rows: QuerySet[Any], order: Order, lookups: Collection[str]) -> QuerySet[Any]:
    """The same without the conditions on one end of the order."""
    every = list(leaves_of(rows))
    kept = [leaf for leaf in every if not (is_bound(leaf, order) and leaf.lookup_name in lookups)]
    if len(kept) == len(every):
        return rows
    found = rows.all()
    found.query.where = WhereNode(kept)
    return found


def with_leaves(rows: QuerySet[Any], leaves: Iterable[Any]) -> QuerySet[Any]:
    """The rows with conditions of another queryset of the same table."""
    found = rows.all()
    found.query.get_initial_alias()
    for leaf in leaves:
        found.query.where.add(leaf, AND)
    return found


def those_buried(rows: QuerySet[Any]) -> QuerySet[Any]:
    """Of rows with a failure: it is what their time says, and by the state PostgreSQL would expect
    few."""
    found = rows.filter(failed_at__isnull=False)
    found.query.where = WhereNode([leaf for leaf in leaves_of(found) if not _says_buried(leaf)])
    return found


def scanned_of_failure(rows: QuerySet[Any]) -> QuerySet[Any] | None:
    """What the index of a failure has; None where no more is asked than that knows, or where rows
    are found by their keys."""
    leaves = [(column_of(leaf), leaf) for leaf in leaves_of(rows)]
    known = {"failure", "failed_at"}
    asked = {name for name, _ in leaves} - known
    if not asked or "id" in asked or rows.query.is_empty():
        return None
    whole = rows.model._base_manager.using(rows.db)
    return with_leaves(whole, [leaf for name, leaf in leaves if name in known])
