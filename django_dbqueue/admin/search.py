"""Finding jobs by whole values that an index knows, never by reading the table."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet

from ..models.index import DedupConstraint
from .cursor import BIGGEST

MOST_FOUND = 1000
EXACT = "__exact"


def columns_searched(model: type[Model], fields: Sequence[str]) -> list[str] | None:
    """The columns of ``search_fields``; None where one of them has no index to itself."""
    names = [name.removeprefix("=").removesuffix(EXACT) for name in fields]
    are_whole = all(name.startswith("=") or name.endswith(EXACT) for name in fields)
    return names if are_whole and all(_has_index(model, name) for name in names) else None


def found(
    rows: QuerySet[Any], names: Sequence[str], term: str, queues: Collection[str]
) -> QuerySet[Any]:
    """Those of the rows that have this value in one of the columns; at most some thousand.

    By their keys: in one question with an order, a database may prefer to walk along that.
    """
    whole = rows.model._base_manager.using(rows.db).order_by()
    keys = {key for name in names for key in _keys(whole, name, term, queues)}
    return rows.filter(pk__in=sorted(keys))


def _keys(
    whole: QuerySet[Any], name: str, term: str, queues: Collection[str]
) -> Iterator[Any] | list[Any]:
    key = whole.model._meta.pk
    if name in {"pk", key.name}:
        return as_key(key, term)
    lookups = {name: term}
    if name == "dedup_key":
        # The index begins with the queue.
        lookups["queue__in"] = queues  # type: ignore[assignment]
    return list(whole.filter(**lookups).values_list("pk", flat=True)[:MOST_FOUND])


def as_key(key: Any, term: str) -> list[Any]:
    """The one value of a key that the text stands for, if it does."""
    try:
        value = key.to_python(term)
    except (ValidationError, ValueError):
        return []
    return [] if isinstance(value, int) and abs(value) > BIGGEST else [value]


def _has_index(model: type[Model], name: str) -> bool:
    meta: Any = model._meta
    if name == "dedup_key":
        return any(isinstance(one, DedupConstraint) for one in meta.constraints)
    heads = {index.fields[0].lstrip("-") for index in meta.indexes if index.fields}
    fields = {f.name: f for f in meta.concrete_fields}
    if name not in {"pk", *fields}:
        return False
    return name in {"pk", *heads} or fields[name].primary_key or fields[name].db_index
