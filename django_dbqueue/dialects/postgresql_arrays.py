"""Rows for an INSERT as one array a column: PostgreSQL reads ten times as many a second of them as
of a list of VALUES."""

import re
from collections.abc import Sequence

from .types import Inserted, Row, Statement

PRECISION = re.compile(r"\(.*?\)")
# The types of columns whose values go into arrays, without their length or precision, since a cast
# to it would cut off silently what does not fit: the column itself refuses that.
KINDS = {
    "varchar": "text",
    "char": "text",
    **dict.fromkeys(("text", "bytea", "jsonb", "uuid", "inet", "boolean")),
    **dict.fromkeys(("smallint", "integer", "bigint", "numeric", "double precision")),
    **dict.fromkeys(("date", "time", "timestamp with time zone", "interval")),
}


def insert_of(table: str, columns: Sequence[Inserted], rows: Sequence[Row]) -> Statement | None:
    """None where a column is of another type, or nothing is to be filled in."""
    filled = [one for one in columns if "%s" in one.text]
    plain = [PRECISION.sub("", one.kind) for one in filled]
    if not filled or not KINDS.keys() >= set(plain):
        return None
    place = {one.name: f"given.c{number}" for number, one in enumerate(filled)}
    texts = [one.text.replace("%s", place.get(one.name, "")) for one in columns]
    arrays = ", ".join(f"%s::{KINDS[kind] or kind}[]" for kind in plain)
    parts = ", ".join(f"c{number}" for number in range(len(filled)))
    sql = (
        f"INSERT INTO {table} ({', '.join(one.name for one in columns)}) "
        f"SELECT {', '.join(texts)} FROM unnest({arrays}) AS given ({parts})"
    )
    return sql, [list(values) for values in zip(*rows, strict=True)]
