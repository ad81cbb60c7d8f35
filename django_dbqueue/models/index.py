"""The index that stays small where the database lets it."""

from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.backends.ddl_references import Statement


class HotIndex(models.Index):
    """An index over the rows that still move: partial on PostgreSQL and SQLite, whole elsewhere.

    ``where`` holds the lookups of the partial index; fields that it pins to one value are left
    out there, since they would say nothing.
    """

    def __init__(self, *, where: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.where = where

    def deconstruct(self) -> tuple[str, Any, dict[str, Any]]:
        path, args, kwargs = super().deconstruct()
        return path, args, kwargs | {"where": self.where}

    def set_name_with_model(self, model: type[models.Model]) -> None:
        if "id" not in {field.name for field in model._meta.local_fields}:
            raise ImproperlyConfigured(
                f"{model.__name__}: the primary key of a queue table is the field id, not "
                f"{model._meta.pk.name}; keep the column's name with db_column"
            )
        super().set_name_with_model(model)

    def create_sql(
        self,
        model: type[models.Model],
        schema_editor: BaseDatabaseSchemaEditor,
        using: str = "",
        **kwargs: Any,
    ) -> Statement:
        if not schema_editor.connection.features.supports_partial_indexes:
            return super().create_sql(model, schema_editor, using, **kwargs)
        partial = models.Index(
            fields=[field for field in self.fields if field not in self.where],
            name=self.name,
            condition=models.Q(**self.where),
        )
        return partial.create_sql(model, schema_editor, using, **kwargs)
