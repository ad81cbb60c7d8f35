"""A queue table on one database: its names, quoted, and how its rows become instances."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.db import connections, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.fields import NOT_PROVIDED

from ..dialects import Dialect, dialect_of
from ..dialects.base import Row
from .build import Builder, Conversion, conversions
from .policy import Policy, policy_of

LIFECYCLE_COLUMNS = frozenset(
    {
        "status",
        "owner",
        "dequeued_time",
        "retry_at",
        "attempts",
        "crashes",
        "losses",
        "finished_at",
        "errors",
        "dedup_key",
    }
)
# Set by the claim itself, or dear to fetch and seldom looked at; loaded when somebody asks.
LEFT_OUT = LIFECYCLE_COLUMNS - {"attempts", "crashes", "losses"} | {
    "queue",
    "created_at",
    "expires_at",
}
# No limit of the schema says how much these hold.
UNBOUNDED = (models.TextField, models.JSONField, models.BinaryField)
SIZED = (str, bytes, memoryview)


@dataclass(frozen=True)
class Table:
    """The model class of a queue table together with one connection, ready for SQL."""

    model: type[Any]
    connection: BaseDatabaseWrapper
    dialect: Dialect
    policy: Policy
    label: str
    takes_batches: bool  # the model runs all jobs of a claim at once
    name: str
    pk: str
    columns: str
    pk_position: int
    unbounded: tuple[int, ...]  # positions of columns that may hold megabytes
    converters: tuple[Conversion, ...]
    builder: Builder
    # Whether all of its columns are written as they are, and in this table alone.
    is_plain: bool
    _inserts: dict[tuple[str, ...], str] = field(default_factory=dict)

    @property
    def job_table(self) -> str:
        """What is stored of it is found by: its class may be renamed."""
        return str(self.model._meta.db_table)

    @property
    def by_key(self) -> str:
        return self.dialect.by_key(self.name)

    @property
    def place(self) -> tuple[str, str]:
        """The database's alias and the label: a model may have a table on several databases."""
        return self.connection.alias, self.label

    def on_this_thread(self) -> Table:
        """The same table, with the same policy, on the calling thread's connection."""
        connection = connections[self.connection.alias]
        if connection is self.connection:
            return self
        return replace(table_of(self.model, connection.alias), policy=self.policy)

    def db_key(self, pk: Any) -> Any:
        return self.model._meta.pk.get_db_prep_value(pk, self.connection)

    def insert_of(self, columns: tuple[str, ...]) -> str:
        """An INSERT of one row."""
        if columns not in self._inserts:
            names = ", ".join(map(self.connection.ops.quote_name, columns))
            places = ", ".join(["%s"] * len(columns))
            self._inserts[columns] = f"INSERT INTO {self.name} ({names}) VALUES ({places})"
        return self._inserts[columns]

    def size_of(self, rows: Sequence[Row]) -> int:
        """The characters or bytes in those columns of the rows that have no limit."""
        values = (row[i] for i in self.unbounded for row in rows)
        return sum(len(value) for value in values if isinstance(value, SIZED))

    def build(self, rows: Sequence[Row], queue: str, owner: str) -> list[Any]:
        """The jobs of rows that were claimed: ``columns``, then whether they have expired."""
        return self.builder.build(self, rows, queue, owner)


def table_of(model: type[Any], using: str) -> Table:
    """The table of a model on this thread's connection to a database, worked out once."""
    connection = connections[using]
    # Kept by the connection itself: in a dict of ours, the tables would keep it alive.
    known: dict[type, Table] = vars(connection).setdefault("dbqueue_tables", {})
    if model not in known:
        known[model] = _table(model, connection)
    return known[model]


def _table(model: type[Any], connection: BaseDatabaseWrapper) -> Table:
    meta = model._meta
    quote = connection.ops.quote_name
    fetched = tuple(f for f in meta.concrete_fields if f.name not in LEFT_OUT)
    dialect = dialect_of(connection)
    columns = [*_selected(fetched, model, connection)]
    columns.append(f"(expires_at IS NOT NULL AND expires_at <= {dialect.now})")
    return Table(
        model=model,
        connection=connection,
        dialect=dialect,
        policy=policy_of(model),  # type: ignore[arg-type]
        label=meta.label_lower,
        takes_batches=hasattr(model, "run_batch"),
        name=quote(meta.db_table),
        pk=quote(meta.pk.column),
        columns=", ".join(columns),
        pk_position=fetched.index(meta.pk),
        unbounded=tuple(i for i, one in enumerate(fetched) if isinstance(one, UNBOUNDED)),
        converters=tuple(conversions(fetched, connection)),
        builder=Builder(model, fetched),
        is_plain=_is_plain(meta),
    )


def _is_plain(meta: Any) -> bool:
    # A key that a default of the database makes has to be asked for.
    if meta.parents or meta.pk.db_default is not NOT_PROVIDED:
        return False
    return all(map(_is_written_as_it_is, meta.concrete_fields))


def _is_written_as_it_is(column: models.Field[Any, Any]) -> bool:
    ways = ("get_placeholder", "get_placeholder_sql")
    return not column.generated and not any(hasattr(column, way) for way in ways)


def _selected(
    fetched: Sequence[models.Field[Any, Any]], model: type[Any], connection: BaseDatabaseWrapper
) -> Iterable[str]:
    compiler = model._base_manager.using(connection.alias).query.get_compiler(connection=connection)
    for one in fetched:
        column = connection.ops.quote_name(str(one.column))
        sql, _ = one.select_format(compiler, column, ())
        yield sql
