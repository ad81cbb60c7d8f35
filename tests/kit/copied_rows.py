"""Many rows in no time: copies of a few that the ORM has made."""

from typing import Any, cast

from django.db import connection
from django.db.models import Model, QuerySet


def last_key(model: type[Model]) -> int:
    """MySQL does not tell the keys of what was inserted."""
    return int(QuerySet(model).order_by("-pk").values_list("pk", flat=True)[0])


def copy_rows(model: type[Model], where: str, limit: int, **changed: Any) -> None:
    """Add as many rows like the first ones that meet a condition, but for the values given."""
    fields = [field for field in model._meta.concrete_fields if not field.primary_key]
    quoted = [connection.ops.quote_name(cast("str", field.column)) for field in fields]
    given = [f for f in fields if f.name in changed]
    values = ["%s" if f in given else name for f, name in zip(fields, quoted, strict=True)]
    table = connection.ops.quote_name(model._meta.db_table)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({', '.join(quoted)}) SELECT {', '.join(values)} FROM {table} "
            f"WHERE {where} ORDER BY id LIMIT {limit}",
            [f.get_db_prep_save(changed[f.name], connection) for f in given],
        )
