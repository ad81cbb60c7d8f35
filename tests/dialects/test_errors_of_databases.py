"""Which of a database's errors mean that its statement is to be run again, and how."""

from itertools import accumulate, islice
from typing import Any

import pytest
from django.db import DatabaseError, connection, connections
from django.db.backends.sqlite3.base import DatabaseWrapper
from django.db.utils import InternalError, OperationalError

from django_dbqueue.dialects import ErrorKind, dialect_of
from tests.kit.connections import other_connection

pytestmark = pytest.mark.usefixtures("db_rows")

RAISE = {
    "mysql": "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = {}",
    "postgresql": "DO $$ BEGIN RAISE EXCEPTION 'it' USING ERRCODE = '{}'; END $$",
}
CODES: dict[str, dict[ErrorKind, list[Any]]] = {
    "mysql": {
        ErrorKind.AGAIN: [1213, 1205, 1020, 1317, 1969, 3024, 3101],
        ErrorKind.LOST: [
            *[1053, 1927, 4031, 1040, 1203, 1226, 1047, 1159, 1161, 1180, 3032],
            *[1044, 1045, 1049, 1129, 1130, 1862, 3118, 4151, 9001, 9002, 9004],
        ],
        ErrorKind.READ_ONLY: [1290, 1836, 1792, 3100],
        ErrorKind.FULL: [1114, 1021],
        None: [1062, 1064, 1146, 1406],
    },
    "postgresql": {
        ErrorKind.AGAIN: ["40001", "40P01", "55P03", "57014"],
        ErrorKind.LOST: [
            *["57P01", "57P02", "57P03", "57P05", "25P03", "25P04", "53300", "08006"],
            *["57P04", "28000", "28P01", "3D000"],
        ],
        ErrorKind.READ_ONLY: ["25006"],
        ErrorKind.FULL: ["53100"],
        None: ["23505", "42601", "42P01", "22001"],
    },
}


def error_of(statement, on=connection):
    with pytest.raises(DatabaseError) as caught, on.cursor() as cursor:
        cursor.execute(statement)
    return caught.value


@pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite raises no errors on demand")
@pytest.mark.parametrize("trouble", [*ErrorKind, None], ids=str)
def test_an_error_is_known_by_its_code(trouble):
    for code in CODES[connection.vendor][trouble]:
        error = error_of(RAISE[connection.vendor].format(code))
        assert dialect_of(connections["default"]).error_kind(error) is trouble, code


@pytest.mark.skipif(connection.vendor != "postgresql", reason="of psycopg 3")
def test_a_driver_that_is_out_of_step_has_lost_its_connection():
    """A server that ends a session just as a transaction begins is answered twice."""
    out_of_step = InternalError("received 2 results from command 'BEGIN'")
    assert dialect_of(connections["default"]).error_kind(out_of_step) is ErrorKind.LOST


@pytest.mark.skipif(connection.vendor != "sqlite", reason="a server's errors have codes")
@pytest.mark.parametrize(
    ("pragma", "trouble"),
    [
        ("PRAGMA query_only = 1", ErrorKind.READ_ONLY),
        ("PRAGMA max_page_count = 1", ErrorKind.FULL),
        ("SELECT 1", None),
    ],
)
def test_sqlite_says_why_it_does_not_write(pragma, trouble, tmp_path):
    own = other_connection()
    own.settings_dict = {**own.settings_dict, "NAME": tmp_path / "without free pages"}
    with own.cursor() as cursor:
        cursor.execute(pragma)
    blob = "nothing" if trouble is None else "zeroblob(100000)"
    error = error_of(f"CREATE TABLE big AS SELECT {blob} AS it", on=own)
    own.close()
    assert dialect_of(own).error_kind(error) is trouble


@pytest.mark.skipif(connection.vendor != "sqlite", reason="only SQLite opens files")
def test_a_file_that_cannot_be_opened_is_waited_for(tmp_path):
    own = other_connection()
    own.settings_dict = {**own.settings_dict, "NAME": tmp_path / "missing" / "file"}
    with pytest.raises(OperationalError) as caught:
        own.ensure_connection()
    assert dialect_of(own).error_kind(caught.value) is ErrorKind.LOST


def test_a_connect_that_fails_is_no_statement_s_fault_whichever_database_it_was_to(tmp_path):
    """A finisher connects to all of its databases, and asks the one of its first outcome."""
    file = DatabaseWrapper({**connection.settings_dict, "NAME": tmp_path, "OPTIONS": {}})
    with pytest.raises(OperationalError) as caught:
        file.ensure_connection()
    assert dialect_of(connections["default"]).error_kind(caught.value) is ErrorKind.LOST


@pytest.mark.skipif(connection.vendor != "sqlite", reason="only SQLite locks the whole database")
def test_a_locked_file_is_tried_again():
    holder, own = other_connection(), other_connection()
    with holder.cursor() as one, own.cursor() as two:
        one.execute("BEGIN IMMEDIATE")
        two.execute("PRAGMA busy_timeout = 0")
        error = error_of("BEGIN IMMEDIATE", on=own)
    holder.close()
    own.close()
    assert dialect_of(own).error_kind(error) is ErrorKind.AGAIN


@pytest.mark.skipif(connection.vendor != "sqlite", reason="only SQLite locks the whole database")
def test_who_waits_for_long_tries_seldom_and_who_has_just_come_often():
    """Each try costs the processor as much as a job."""
    pauses = list(islice(dialect_of(connections["default"]).retry_pauses(), 300))
    tries = [waited for waited in accumulate(pauses) if waited < 1.0]
    assert 10 < len(tries) < 60
    assert sum(waited < 0.02 for waited in tries) >= 4
