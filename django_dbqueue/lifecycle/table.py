"""A queue table on one database: its names, quoted, and how its rows become instances.

For a job that does little, becoming an instance is the most expensive part of its life.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from inspect import iscoroutinefunction
from operator import itemgetter
from typing import Any

from django.db import connections, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.base import ModelState
from django.db.models.fields import NOT_PROVIDED
from django.db.models.signals import post_init, pre_init

from ..dialects import Dialect, dialect_of
from ..dialects.types import Inserted, Row
from ..states import Status
from .instances import is_assigned, is_quiet
from .policy import MAX_SECONDS, Policy, policy_of

Converter = Callable[[Any, Any, BaseDatabaseWrapper], Any]
Conversion = tuple[int, tuple[Converter, ...], Any]

# Columns of the model's own by these names go before the policy's options: how often a job is
# tried, and after which pauses when its time to run is over (``claim_end.at_end_of_time``).
MAX_ATTEMPTS = "max_attempts"
OVERDUE_PAUSES = "overdue_pauses"
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
        "failure",
        "failed_at",
        "dedup_key",
    }
)
# Set by the claim itself, or expensive to fetch and seldom looked at; loaded when somebody asks.
LEFT_OUT = LIFECYCLE_COLUMNS - {"attempts", "crashes", "losses"} | {
    "queue",
    "created_at",
    "expires_at",
    "concurrency_limit",
    "key_order",
    OVERDUE_PAUSES,
}
# No limit of the schema says how much these hold.
UNBOUNDED = (models.TextField, models.JSONField, models.BinaryField)
SIZED = (str, bytes, memoryview)
NUMBERS = ("priority", "attempts", "crashes", "losses", "time_to_run")
NUMBER = {int, type(None)}


@dataclass(frozen=True)
class Table:
    """The model class of a queue table together with one connection, ready for SQL."""

    model: type[Any]
    connection: BaseDatabaseWrapper
    dialect: Dialect
    policy: Policy
    label: str
    takes_batches: bool  # the model runs all jobs of a claim at once
    takes_keys: bool  # its jobs may have a concurrency key
    is_coroutine: bool  # run() is one, and may run next to others on an event loop
    name: str
    pk: str
    columns: str
    pk_position: int
    time_to_run_position: int
    number_positions: tuple[int, ...]
    unbounded: tuple[int, ...]  # positions of columns that may hold megabytes
    converters: tuple[Conversion, ...]
    attributes: tuple[str, ...]  # of the columns, in their order
    # Whether nothing of the project's happens when Django makes an instance of a row.
    is_quiet: bool
    # Nor when an attribute of one is assigned.
    is_assigned: bool
    # Whether all of its columns are written as they are, and in this table alone.
    is_plain: bool
    binary: frozenset[str]  # the columns of bytes
    _inserts: dict[tuple[str, ...], str] = field(default_factory=dict)

    @property
    def job_table(self) -> str:
        """What is stored of it is found by: its class may be renamed."""
        return str(self.model._meta.db_table)

    @property
    def by_key(self) -> str:
        return self.dialect.by_key(self.name)

    @property
    def max_attempts(self) -> str:
        """The column of a job's own number of attempts, where the model has one."""
        return self.own_column(MAX_ATTEMPTS)

    @property
    def overdue_pauses(self) -> str:
        """The column of a job's own pauses after its time to run, where the model has one."""
        return self.own_column(OVERDUE_PAUSES)

    @property
    def claimed(self) -> str:
        """When a job was claimed, to be read (``errors.moment``)."""
        return self.dialect.readable_column("dequeued_time")

    def own_column(self, name: str) -> str:
        """The column of a field that only some models have, to be read; NULL where it has none."""
        found = self.model._meta._forward_fields_map.get(name)
        return "NULL" if found is None else self.dialect.read_column(found.column)

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
            places = ", ".join(map(self.place_of, columns))
            self._inserts[columns] = f"INSERT INTO {self.name} ({names}) VALUES ({places})"
        return self._inserts[columns]

    def place_of(self, column: str) -> str:
        """How a value that is not null stands in an INSERT."""
        if column not in self.binary:
            return "%s"
        ops: Any = self.connection.ops
        if hasattr(models.BinaryField, "get_placeholder_sql"):  # since Django 6.1
            return str(ops.binary_placeholder_sql(b"", compiler=None)[0])
        return str(ops.binary_placeholder_sql(b""))

    def inserted(self, field: Any, text: str = "") -> Inserted:
        """A column of an INSERT of many rows: its value, or what is the same in all of them."""
        kind = str(field.db_type(self.connection))
        name = self.connection.ops.quote_name(field.column)
        return Inserted(name, text or self.place_of(field.column), kind)

    def moment_of(self, field: Any) -> Inserted:
        """The same of a moment, given as seconds from now."""
        name = self.connection.ops.quote_name(field.column)
        return Inserted(name, self.dialect.now_plus("%s"), "double precision")

    def size_of(self, rows: Sequence[Row]) -> int:
        """The characters or bytes in those columns of the rows that have no limit."""
        values = (row[i] for i in self.unbounded for row in rows)
        return sum(len(value) for value in values if isinstance(value, SIZED))

    def build(self, rows: Sequence[Row], queue: str, owner: str) -> list[Any]:
        """The jobs of rows that were claimed: ``columns``, then whether they have expired."""
        for position in () if self.dialect.has_typed_columns else self.number_positions:
            if odd := {*map(type, map(itemgetter(position), rows))} - NUMBER:
                raise TypeError(f"{self.attributes[position]} is not a number, but {odd}")
        known = {"queue": queue, "status": Status.CLAIMED, "owner": owner, "claim_owner": owner}
        model, names, alias = self.model, self.attributes, self.connection.alias
        if self.policy is not policy_of(model):  # type: ignore[arg-type]
            known["claim_policy"] = self.policy
        # Receivers may be connected at any time.
        is_heard = pre_init.has_listeners(model) or post_init.has_listeners(model)
        # A dict that has all keys already is copied in half the time that it takes to make one.
        attributes = {**dict.fromkeys((*names, "claim_key", "_state")), **known}
        jobs: list[Any] = []
        for row, values in zip(rows, self._values_of(rows), strict=True):
            if self.is_quiet and not is_heard:
                state = ModelState()
                state.adding, state.db = False, alias
                job = object.__new__(model)
                job.__dict__ = held = attributes.copy()
                # The last value has no name.
                held.update(zip(names, values, strict=False))
                held["_state"] = state
            else:
                job = model.from_db(alias, list(names), values[:-1])
                (held := job.__dict__).update(known)
            held["claim_key"] = row[self.pk_position]
            if row[-1]:
                held["has_expired"] = True
            jobs.append(job)
        return jobs

    def _values_of(self, rows: Sequence[Row]) -> Sequence[Sequence[Any]]:
        times = {*map(itemgetter(self.time_to_run_position), rows)} - {None}
        unusable = {seconds for seconds in times if not 1 <= seconds <= MAX_SECONDS}
        if not (unusable or self.converters):
            return rows
        for values in (read := [list(row) for row in rows]):
            if values[self.time_to_run_position] in unusable:
                values[self.time_to_run_position] = None  # as in claim_end
            for position, converters, expression in self.converters:
                for convert in converters:
                    values[position] = convert(values[position], expression, self.connection)
        return read


def table_of(model: type[Any], using: str) -> Table:
    """The table of a model on this thread's connection to a database, worked out once."""
    connection = connections[using]
    # Kept by the connection itself: in a dict of ours, the tables would keep it alive.
    known: dict[type, Table] = vars(connection).setdefault("dbqueue_tables", {})
    if model not in known:
        known[model] = _table(model, connection)
    return known[model]


def _table(model: type[Any], connection: BaseDatabaseWrapper) -> Table:
    meta, quote, dialect = model._meta, connection.ops.quote_name, dialect_of(connection)
    fetched = [f for f in meta.concrete_fields if f.name not in LEFT_OUT]
    names = tuple(one.attname for one in fetched)
    compiler = model._base_manager.using(connection.alias).query.get_compiler(connection=connection)
    read = dialect.read_column
    columns = [
        one.get_col(meta.db_table).select_format(compiler, read(str(one.column)), ())[0]
        for one in fetched
    ]
    columns.append(f"(expires_at IS NOT NULL AND expires_at <= {dialect.now})")
    return Table(
        model=model,
        connection=connection,
        dialect=dialect,
        policy=policy_of(model),  # type: ignore[arg-type]
        label=meta.label_lower,
        takes_batches=hasattr(model, "run_batch"),
        takes_keys=model.takes_keys,
        is_coroutine=is_coroutine(model),
        name=quote(meta.db_table),
        pk=read(meta.pk.column),
        columns=", ".join(columns),
        pk_position=fetched.index(meta.pk),
        time_to_run_position=names.index("time_to_run"),
        number_positions=tuple(map(names.index, NUMBERS)),
        unbounded=tuple(i for i, one in enumerate(fetched) if isinstance(one, UNBOUNDED)),
        converters=tuple(conversions(fetched, connection)),
        attributes=names,
        is_quiet=is_quiet(model, names),
        is_assigned=is_assigned(model, [one.attname for one in meta.concrete_fields]),
        is_plain=_is_plain(meta),
        binary=frozenset(one.column for one in meta.concrete_fields if _is_binary(one)),
    )


def _is_plain(meta: Any) -> bool:
    # A key that a default of the database makes has to be asked for.
    if meta.parents or meta.pk.db_default is not NOT_PROVIDED:
        return False
    ways = ("get_placeholder", "get_placeholder_sql")
    return not any(
        column.generated or (any(hasattr(column, way) for way in ways) and not _is_binary(column))
        for column in meta.concrete_fields
    )


def _is_binary(column: Any) -> bool:
    return type(column) is models.BinaryField


def is_coroutine(model: type[Any]) -> bool:
    """Whether its jobs may run next to others on an event loop: neither as a batch, nor within a
    transaction of their own, which is a thread's."""
    is_one = not hasattr(model, "run_batch") and not policy_of(model).exactly_once  # type: ignore[arg-type]
    return is_one and iscoroutinefunction(model.run)


def conversions(
    fetched: Sequence[models.Field[Any, Any]], connection: BaseDatabaseWrapper
) -> Iterable[Conversion]:
    """Position, converters and expression of each field whose values need some."""
    for position, column in enumerate(fetched):
        expression = column.get_col(column.model._meta.db_table)
        converters = connection.ops.get_db_converters(expression)
        converters = converters + expression.get_db_converters(connection)  # may replace them
        if converters:
            yield position, tuple(converters), expression
