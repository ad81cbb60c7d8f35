"""What checks say of dead rows that stay for long."""

import pytest
from django.db import connection, connections

from django_dbqueue.checks import tables
from django_dbqueue.dialects import dialect_of, mysql_server, postgresql_server

pytestmark = pytest.mark.usefixtures("db_rows")
of_postgresql = pytest.mark.skipif(connection.vendor != "postgresql", reason="only it vacuums")


def told():
    return [(one.id, one.msg, one.hint) for one in tables.check_databases(databases=["default"])]


def execute(statement):
    with connection.cursor() as cursor:
        cursor.execute(statement)


@of_postgresql
@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("autovacuum_enabled = off", "autovacuum is off for"),
        ("autovacuum_vacuum_threshold = 300000", "once 300,000 of its rows are dead"),
    ],
)
def test_a_table_that_is_vacuumed_late_or_never_is_told_until_the_hint_was_run(option, words):
    execute(f"ALTER TABLE queueapp_strict SET ({option}, autovacuum_vacuum_scale_factor = 0)")
    try:
        [(check_id, message, hint)] = told()
        assert check_id == "dbqueue.W013"
        assert words in message
        execute(hint.partition(", and")[0])
        assert told() == []
    finally:
        execute(
            "ALTER TABLE queueapp_strict RESET (autovacuum_enabled, "
            "autovacuum_vacuum_threshold, autovacuum_vacuum_scale_factor)"
        )


@of_postgresql
def test_a_large_table_is_told_while_the_share_of_its_rows_is_what_counts(monkeypatch):
    monkeypatch.setattr(postgresql_server, "DEAD_ROWS_MAX", 40)
    assert {check_id for check_id, *_ in told()} == {"dbqueue.W013"}


@pytest.mark.skipif(connection.vendor != "mysql", reason="only InnoDB purges")
def test_a_purge_that_is_far_behind_is_told(monkeypatch):
    if not getattr(connection, "mysql_is_mariadb", False):
        pytest.skip("MySQL shows it to nobody without privileges")
    monkeypatch.setattr(mysql_server, "UNPURGED_MAX", -1)
    [(check_id, message, hint)] = told()
    assert check_id == "dbqueue.W014"
    assert "are not purged yet" in message
    execute(hint.partition("SELECT ")[1] + hint.partition("SELECT ")[2].partition(". If")[0])


def test_a_table_that_is_not_there_yet_is_no_problem():
    with connection.cursor() as cursor:
        assert dialect_of(connections["default"]).upkeep_problem(cursor, "nowhere") == ""
