"""A database that refuses some writes, for no reason that it is known to pass."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection

REFUSE = {
    "sqlite": [
        (
            "CREATE TRIGGER refusal BEFORE UPDATE ON {table} WHEN {when} "
            "BEGIN SELECT RAISE(ABORT, 'not now'); END"
        ),
    ],
    "mysql": [
        (
            "CREATE TRIGGER refusal BEFORE UPDATE ON {table} FOR EACH ROW "
            "IF {when} THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not now'; END IF"
        ),
    ],
    "postgresql": [
        (
            "CREATE OR REPLACE FUNCTION refusal() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'not now'; END $$"
        ),
        (
            "CREATE TRIGGER refusal BEFORE UPDATE ON {table} FOR EACH ROW "
            "WHEN ({when}) EXECUTE FUNCTION refusal()"
        ),
    ],
}
ALLOW = {
    "sqlite": ["DROP TRIGGER IF EXISTS refusal"],
    "mysql": ["DROP TRIGGER IF EXISTS refusal"],
    "postgresql": [
        "DROP TRIGGER IF EXISTS refusal ON {table}",
        "DROP FUNCTION IF EXISTS refusal",
    ],
}


def refuse(model: Any, when: str) -> None:
    """Refuse each UPDATE of a row for which this SQL holds; ``NEW`` is what it would become."""
    _execute(REFUSE, table=model._meta.db_table, when=when)


def allow(model: Any) -> None:
    _execute(ALLOW, table=model._meta.db_table)


@contextmanager
def refused(model: Any, when: str) -> Iterator[None]:
    refuse(model, when)
    try:
        yield
    finally:
        allow(model)


def _execute(statements: dict[str, list[str]], **names: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements[connection.vendor]:
            cursor.execute(statement.format(**names))
