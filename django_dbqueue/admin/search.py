"""Finding jobs by whole values that an index knows, never by reading the table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Model, Q, QuerySet
from django.db.models.functions import Coalesce
from django.http import HttpRequest

from ..models.index import DedupConstraint
from ..operate.cursor import BIGINT_MAX
from ..states import Status

FOUND_ROWS_MAX = 1000  # by one column
EXACT = "__exact"


@dataclass(frozen=True)
class Note:
    """What is to be said of a search, next to what it found, and where to go on: with ``query`` in
    place of the search, the other filters as they are."""

    text: str
    url: str = ""
    link: str = ""
    query: tuple[tuple[str, str], ...] = ()


def note(request: HttpRequest, text: str, link: str = "", **query: str) -> None:
    """Said once, however often the same is looked for."""
    notes(request)[Note(text, link=link, query=tuple(query.items()))] = None


def notes(request: HttpRequest) -> dict[Note, None]:
    found: dict[Note, None] = vars(request).setdefault("dbqueue_search_notes", {})
    return found


def leading(request: HttpRequest, url: Callable[[dict[str, str]], str]) -> list[Note]:
    """The notes, with where they lead: ``url`` makes that of a query."""
    return [replace(one, url=url(dict(one.query))) if one.query else one for one in notes(request)]


def columns_searched(model: type[Model], fields: Sequence[str]) -> list[str] | None:
    """The columns of ``search_fields``; None where one of them has no index to itself."""
    if not all(name.startswith("=") or name.endswith(EXACT) for name in fields):
        return None
    names = [name.removeprefix("=").removesuffix(EXACT) for name in fields]
    meta: Any = model._meta
    indexed = {"pk"} | {f.name for f in meta.concrete_fields if f.unique or f.db_index}
    heads = {index.fields[0].lstrip("-") for index in meta.indexes if index.fields}
    indexed |= heads & {f.name for f in meta.concrete_fields}
    indexed.discard("dedup_key")
    if any(isinstance(one, DedupConstraint) for one in meta.constraints):
        indexed.add("dedup_key")
    if getattr(model, "takes_keys", False):
        indexed.add("concurrency_key")
    return names if indexed.issuperset(names) else None


def keys_found(
    rows: QuerySet[Any], names: Sequence[str], term: str
) -> tuple[set[Any], dict[str, Any]]:
    """The keys of rows that have this value in one of the columns; and, by name, the value in
    columns where very many have it: those are looked for row by row.

    In one question with an order, a database may prefer to walk along that.
    """
    whole = rows.model._base_manager.using(rows.db).order_by()
    key = rows.model._meta.pk
    keys: set[Any] = set()
    common: dict[str, Any] = {}
    for name in names:
        if name in {"pk", key.name}:
            keys.update(as_key(key, term))
            continue
        # Their index begins with the state.
        more = {"status__in": [*Status]} if name == "concurrency_key" else {}
        values = as_key(rows.model._meta.get_field(name), term)
        matching = whole.filter(**{f"{name}__in": values}, **more)
        found = matching.values_list("pk", flat=True)[:FOUND_ROWS_MAX]
        if len(found) == FOUND_ROWS_MAX:
            common[name] = values[0]
        else:
            keys.update(found)
    return keys, common


def row_by_row(rows: QuerySet[Any], keys: set[Any], common: dict[str, Any]) -> QuerySet[Any]:
    """Those of the rows that have one of the keys, or one of the values in their columns."""
    found = Q(pk__in=sorted(keys))
    for number, (name, value) in enumerate(common.items()):
        # Not by its index, which would be read as a whole for each part of the list.
        rows = rows.alias(**{f"one_by_one_{number}": Coalesce(name, name)})
        found |= Q(**{f"one_by_one_{number}": value})
    return rows.filter(found)


def as_key(key: Any, term: str) -> list[Any]:
    """The one value of a key that the text stands for, if it does."""
    try:
        value = key.to_python(term.encode().decode())
    except (ValidationError, ValueError):
        return []
    is_beyond = isinstance(value, int) and abs(value) > BIGINT_MAX
    return [] if is_beyond or "\0" in term else [value]
