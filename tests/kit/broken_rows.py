"""Rows as no code of ours writes them: edited by hand, or by another program."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection
from django.db.models import Model

from tests.kit.connections import is_mysql

HEAD = "owner = NULL, retry_at = NULL, dequeued_time = NULL"
CLAIMED = "status = 1, dequeued_time = '2020-01-01 00:00:00'"

# What a hand may write on all three databases, constraints as they are: SET clauses.
SETS = {
    "an unknown status": "status = 77",
    "claimed by nobody, for ever": f"{HEAD}, status = 1",
    "claimed by nobody": f"{CLAIMED}, owner = NULL, retry_at = '2020-01-01 00:00:00'",
    "claimed by an empty owner": f"{CLAIMED}, owner = '', retry_at = '2020-01-01 00:00:00'",
    "claimed by a stranger": f"{CLAIMED}, owner = 'me', retry_at = '2020-01-01 00:00:00'",
    "claimed by a stranger, for ever": f"{CLAIMED}, owner = 'me', retry_at = NULL",
    "claimed with no attempt": f"{CLAIMED}, attempts = 0, owner = 'me', "
    "retry_at = '2020-01-01 00:00:00'",
    "claimed and crashed too often": f"{CLAIMED}, crashes = 2147483647, owner = 'me', "
    "retry_at = '2020-01-01 00:00:00'",
    "claimed until 9999": f"{CLAIMED}, owner = 'me', retry_at = '9999-12-31 23:59:59'",
    "delayed for ever": "status = 3",
    "delayed since the year 1": "status = 3, retry_at = '0001-01-01 00:00:00'",
    "delayed until 9999": "status = 3, retry_at = '9999-12-31 23:59:59'",
    "ready with an owner": "owner = 'me', retry_at = '2020-01-01 00:00:00'",
    "ready with a date in 9999": "retry_at = '9999-12-31 23:59:59'",
    "expires in the year 1": "expires_at = '0001-01-01 00:00:00'",
    "expires in 9999": "expires_at = '9999-12-31 23:59:59'",
    "huge attempts": "attempts = 2147483647",
    "huge crashes": "crashes = 2147483647",
    "huge losses": "losses = 32767",
    "huge time to run": "time_to_run = 2147483647",
    "no time to run": "time_to_run = 0",
    "huge priority": "priority = 9223372036854775807",
    "negative priority": "priority = -9223372036854775808",
    "no queue": "queue = ''",
    "a queue of spaces": "queue = '  '",
    "a queue with a space behind": "queue = 'default '",
    "a queue with a tab": "queue = 'default\t'",
    "a long queue": f"queue = '{'q' * 200}'",
    "an empty key": "dedup_key = ''",
    "a key with a space behind": "dedup_key = 'key '",
    "a long key": f"dedup_key = '{'k' * 200}'",
    "errors are text": """errors = '"it was late"'""",
    "errors are a number": "errors = '17'",
    "errors are null": "errors = 'null'",
    "errors are an object": """errors = '{"exception": "E"}'""",
    "errors are a list of nonsense": """errors = '[1, null, "x", {}, {"message": 5}]'""",
    "done without a date": "status = 2, finished_at = NULL, retry_at = '2020-01-01 00:00:00'",
    "buried without a date": "status = 4, finished_at = NULL",
    "buried and claimed": "status = 4, owner = 'me', retry_at = '2020-01-01 00:00:00'",
}
# SQLite keeps what the type of a column forbids elsewhere.
SQLITE = {
    "dots in words": "priority = '127.0.0.1', attempts = '1.2.3', crashes = ''",
    "a priority in words": "priority = 'high'",
    "attempts in words": "attempts = 'many'",
    "crashes in words": "crashes = 'many'",
    "a time to run in words": "time_to_run = 'long'",
    "enormous attempts": "attempts = 9223372036854775807",
    "enormous time to run": "time_to_run = 9223372036854775807",
    "a queue of bytes": "queue = x'ff'",
    "losses in words": "losses = 'many'",
    "a key of bytes": "dedup_key = x'ff'",
    "a status in words": "status = 'ready'",
    "delayed until tomorrow": "status = 3, retry_at = 'tomorrow'",
    "delayed until nothing": "status = 3, retry_at = ''",
    "claimed until nothing": f"{CLAIMED}, owner = 'me', retry_at = ''",
    "expires some day": "expires_at = 'some day'",
}
POSTGRESQL = {
    "delayed since ever": "status = 3, retry_at = '-infinity'",
    "delayed until infinity": "status = 3, retry_at = 'infinity'",
    "claimed since ever": f"{CLAIMED}, owner = 'me', retry_at = '-infinity'",
    "expired since ever": "expires_at = '-infinity'",
}
MYSQL = {
    "enormous attempts": "attempts = 4294967295",
    "enormous time to run": "time_to_run = 4294967295",
    "claimed and crashed very often": f"{CLAIMED}, crashes = 4294967295, owner = 'me', "
    "retry_at = '2020-01-01 00:00:00'",
    "delayed since zero": "status = 3, retry_at = '0000-00-00 00:00:00'",
}

# What becomes of them when a worker comes by; the others are run.
LEFT = {
    "an unknown status": 77,
    "claimed by nobody, for ever": 1,
    "claimed by a stranger, for ever": 1,
    "claimed until 9999": 1,
    "delayed for ever": 3,
    "delayed until 9999": 3,
    "delayed until tomorrow": 3,
    "delayed until infinity": 3,
    "buried without a date": 4,
    "buried and claimed": 4,
    "dots in words": 4,
    "a priority in words": 4,
    "crashes in words": 4,
    "losses in words": 4,
    "a time to run in words": 4,
    "a status in words": "ready",
}


def nonsense() -> dict[str, str]:
    """The cases that this database takes: name -> SET clause."""
    return SETS | {"sqlite": SQLITE, "postgresql": POSTGRESQL, "mysql": MYSQL}[connection.vendor]


def edit(job: Model, sets: str) -> None:
    """What a person does with the database's own shell."""
    table = connection.ops.quote_name(job._meta.db_table)
    with lax(), connection.cursor() as cursor:
        cursor.execute(f"UPDATE {table} SET {sets} WHERE id = {job.pk}")
        assert cursor.rowcount == 1


@contextmanager
def lax() -> Iterator[None]:
    """MariaDB and MySQL as older programs set them up: zero dates are dates."""
    if connection.vendor != "mysql":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@sql_mode")
        [(mode,)] = cursor.fetchall()
        cursor.execute("SET sql_mode = ''")
        try:
            yield
        finally:
            cursor.execute("SET sql_mode = %s", [mode])


@contextmanager
def refused(model: type[Model], column: str = "plain") -> Iterator[None]:
    """While this lasts, no row that has 'odd' in this column can be written; as it is, it may
    stay."""
    with connection.cursor() as cursor:
        for statement in CONSTRAIN[_kind()]:
            cursor.execute(statement.format(_name(model), column))
        try:
            yield
        finally:
            cursor.execute(RELEASE[_kind()].format(_name(model)))


def _name(model: type[Model]) -> str:
    return connection.ops.quote_name(model._meta.db_table)


def _kind() -> str:
    if connection.vendor != "mysql":
        return connection.vendor
    return "mysql" if is_mysql() else "mariadb"


CONSTRAIN = {
    "mariadb": [
        "SET check_constraint_checks = 0",
        "ALTER TABLE {} ADD CONSTRAINT even CHECK ({} <> 'odd')",
        "SET check_constraint_checks = 1",
    ],
    # It takes no constraint that a row breaks: a trigger gives the constraint's error.
    "mysql": [
        (
            "CREATE TRIGGER even BEFORE UPDATE ON {} FOR EACH ROW IF NEW.{} = 'odd' "
            "THEN SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 3819; END IF"
        )
    ],
    "postgresql": ["ALTER TABLE {} ADD CONSTRAINT even CHECK ({} <> 'odd') NOT VALID"],
    # It asks for the constraints of those columns alone that change.
    "sqlite": [
        (
            "CREATE TRIGGER even BEFORE UPDATE ON {} WHEN NEW.{} = 'odd' "
            "BEGIN SELECT RAISE(ABORT, 'it is odd'); END"
        )
    ],
}
RELEASE = {
    "mariadb": "ALTER TABLE {} DROP CONSTRAINT even",
    "mysql": "DROP TRIGGER even",
    "postgresql": "ALTER TABLE {} DROP CONSTRAINT even",
    "sqlite": "DROP TRIGGER even",
}
