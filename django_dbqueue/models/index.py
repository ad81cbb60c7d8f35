"""Indexes that stay small where the database lets them."""

from collections.abc import Callable, Sequence
from typing import Any

from django.core.exceptions import FieldDoesNotExist
from django.db import models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.backends.ddl_references import Statement

from ..dialects import dialect_of

# A statement, since Django runs whatever an index answers.
NOTHING = "SELECT 1"
BY_KEY = "dedup_key", "queue"
QUEUE_OF_KEY = "dedup_queue"  # a column of the queue, NULL without a key


class HotIndex(models.Index):
    """An index over the rows that still move: partial on PostgreSQL and SQLite, whole elsewhere.

    ``where`` holds the lookups of the partial index; fields that it pins to one value are left
    out there, since they would say nothing. ``more``: fields at its end where it is whole.
    """

    def __init__(self, *, where: dict[str, Any], more: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.where, self.more = where, [*more]

    def deconstruct(self) -> tuple[str, Any, dict[str, Any]]:
        path, args, kwargs = super().deconstruct()
        own = {"where": self.where} | ({"more": self.more} if self.more else {})
        return path, args, kwargs | own

    def set_name_with_model(self, model: type[models.Model]) -> None:
        try:
            super().set_name_with_model(model)
        except FieldDoesNotExist:
            # The system checks say what is wrong with the model, once it can be loaded.
            self.name = "_".join(self.fields)[: self.max_name_length]

    def create_sql(
        self,
        model: type[models.Model],
        schema_editor: BaseDatabaseSchemaEditor,
        using: str = "",
        **kwargs: Any,
    ) -> Statement:
        if not schema_editor.connection.features.supports_partial_indexes:
            whole = models.Index(fields=[*self.fields, *self.more], name=self.name)
            return whole.create_sql(model, schema_editor, using, **kwargs)
        partial = models.Index(
            fields=[field for field in self.fields if field not in self.where],
            name=self.name,
            condition=models.Q(**self.where),
        )
        return partial.create_sql(model, schema_editor, using, **kwargs)


class PartialIndex(HotIndex):
    """An index over few rows, which is not made where the database has no partial indexes: there
    the one that begins with the status leads to them."""

    def create_sql(
        self,
        model: type[models.Model],
        schema_editor: BaseDatabaseSchemaEditor,
        using: str = "",
        **kwargs: Any,
    ) -> Statement:
        if schema_editor.connection.features.supports_partial_indexes:
            return super().create_sql(model, schema_editor, using, **kwargs)
        return Statement(NOTHING)

    def remove_sql(
        self, model: type[models.Model], schema_editor: BaseDatabaseSchemaEditor, **kwargs: Any
    ) -> str:
        if schema_editor.connection.features.supports_partial_indexes:
            return super().remove_sql(model, schema_editor, **kwargs)
        return NOTHING


class PrefixIndex(models.Index):
    """An index of texts by which ``istartswith`` finds, as each database wants it."""

    def create_sql(
        self,
        model: type[models.Model],
        schema_editor: BaseDatabaseSchemaEditor,
        using: str = "",
        **kwargs: Any,
    ) -> Statement:
        connection = schema_editor.connection
        quote = connection.ops.quote_name
        [name] = self.fields
        field: Any = model._meta.get_field(name)
        by = dialect_of(connection).by_prefix(quote(field.column))
        table = quote(model._meta.db_table)
        return Statement(f"CREATE INDEX {quote(str(self.name))} ON {table} ({by})")


class DedupConstraint(models.UniqueConstraint):
    """At most one job of a queue with the same ``dedup_key``. On PostgreSQL and SQLite jobs without
    a key are not in its index, so most jobs cost nothing there.

    On MariaDB and MySQL it is over the key and a column of its own, which holds the queue where
    there is a key: all of it is NULL in most jobs. Over ``queue`` itself, which never is, a Galera
    cluster would take any two jobs of a queue for the same one. So it is in old migrations, with
    ``fields=("queue", "dedup_key")``.
    """

    def __init__(self, *, fields: Sequence[str] = BY_KEY, name: str) -> None:
        super().__init__(fields=fields, name=name)

    def constraint_sql(self, model: Any, schema_editor: Any) -> Any:
        if self._has_column(schema_editor):
            return ", ".join(self._definitions(model, schema_editor))
        return self._of(models.UniqueConstraint.constraint_sql, model, schema_editor)

    def create_sql(self, model: Any, schema_editor: Any) -> Any:
        if self._has_column(schema_editor):
            parts = self._definitions(model, schema_editor)
            return _altered(model, schema_editor, [f"ADD {part}" for part in parts])
        return self._of(models.UniqueConstraint.create_sql, model, schema_editor)

    def remove_sql(self, model: Any, schema_editor: Any) -> Any:
        if self._has_column(schema_editor):
            index = schema_editor.quote_name(self.name)
            parts = [f"DROP INDEX {index}", f"DROP COLUMN {QUEUE_OF_KEY}"]
            return _altered(model, schema_editor, parts)
        return self._of(models.UniqueConstraint.remove_sql, model, schema_editor)

    def _has_column(self, schema_editor: Any) -> bool:
        is_partial = schema_editor.connection.features.supports_partial_indexes
        return self.fields == BY_KEY and not is_partial

    def _definitions(self, model: Any, schema_editor: Any) -> list[str]:
        """Of the column and of the constraint, as a CREATE or ALTER TABLE takes them."""
        kind = model._meta.get_field("queue").db_parameters(schema_editor.connection)
        value = "IF(dedup_key IS NULL, NULL, queue)"
        return [
            f"{QUEUE_OF_KEY} {kind['type']} COLLATE {kind['collation']} AS ({value}) STORED",
            f"CONSTRAINT {schema_editor.quote_name(self.name)} UNIQUE (dedup_key, {QUEUE_OF_KEY})",
        ]

    def _of(self, verb: Callable[..., Any], model: Any, schema_editor: Any) -> Any:
        if not schema_editor.connection.features.supports_partial_indexes:
            return verb(self, model, schema_editor)
        has_key = models.Q(dedup_key__isnull=False)
        partial = models.UniqueConstraint(fields=self.fields, name=self.name, condition=has_key)
        return verb(partial, model, schema_editor)


def _altered(model: Any, schema_editor: Any, parts: Sequence[str]) -> str:
    return f"ALTER TABLE {schema_editor.quote_name(model._meta.db_table)} {', '.join(parts)}"
