"""What the system checks find in a database, where they are asked to look."""

from pathlib import Path

import pytest
from django.core.checks import Tags, run_checks
from django.db import connections

from django_dbqueue.checks import tables
from django_dbqueue.dialects import dialect_of
from tests.kit.user_project import Project
from tests.queueapp.models import Strict

pytestmark = pytest.mark.usefixtures("db_rows")


def database_ids():
    return [message.id for message in tables.check_databases(databases=["default"])]


def test_the_test_database_passes():
    assert database_ids() == []


def test_databases_are_asked_only_where_they_are_named():
    with connections["default"].execute_wrapper(lambda *args: pytest.fail("asked the database")):
        assert tables.check_databases() == []
        assert tables.check_databases(databases=[]) == []


def test_the_project_passes_all_checks():
    messages = run_checks(databases=["default"])
    assert [message.id for message in messages] == (["dbqueue.W001"])
    assert Tags.database in tables.check_databases.tags


def test_autocommit_off_is_found(monkeypatch):
    monkeypatch.setitem(connections["default"].settings_dict, "AUTOCOMMIT", False)
    assert database_ids() == ["dbqueue.E011"]


def test_a_weak_setup_is_found(monkeypatch):
    """On SQLite: no WAL or IMMEDIATE; elsewhere nothing of the kind can be wrong."""
    if not dialect_of(connections["default"]).one_writer:
        assert dialect_of(connections["default"]).setup_problem() == ""
        return
    monkeypatch.setitem(
        connections["default"].settings_dict, "OPTIONS", {"transaction_mode": "DEFERRED"}
    )
    assert database_ids() == ["dbqueue.E012"]


@pytest.mark.any_database
@pytest.mark.process
def test_the_tests_of_a_new_project_run_on_djangos_database_in_memory(tmp_path: Path) -> None:
    project = Project(tmp_path, "sqlite://")
    with (tmp_path / "kiosk_settings.py").open("a") as settings:
        settings.write(
            'INSTALLED_APPS += ["django_dbqueue.mail"]\n'
            'DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "k.db"}}\n'
        )
    project.models("class Order(Job):\n    pass\n")
    (project.app / "tests.py").write_text(
        "from django.test import TestCase, TransactionTestCase\n"
        "from .models import Order\n"
        "class Tests(TestCase):\n"
        "    def test_it(self):\n"
        "        Order.objects.create()\n"
        "        self.assertEqual(Order.objects.count(), 1)\n"
        "class FlushedTests(TransactionTestCase):\n"
        "    def test_it(self):\n"
        "        Order.objects.create()\n"
    )
    project.run("makemigrations", "kiosk")
    project.run("test")
    assert "dbqueue.E012" in project.run("migrate", code=1)


def test_an_engine_without_transactions_is_found(monkeypatch):
    if connections["default"].vendor != "mysql":
        return  # no other database has one
    with connections["default"].cursor() as cursor:
        cursor.execute("CREATE TABLE queueapp_unsafe (id int) ENGINE = MyISAM")
        try:
            with monkeypatch.context() as patched:
                patched.setattr(Strict._meta, "db_table", "queueapp_unsafe")
                assert database_ids() == ["dbqueue.E010"]
        finally:
            cursor.execute("DROP TABLE queueapp_unsafe")


def test_weak_durability_is_a_warning():
    weaken = {
        "sqlite": "PRAGMA synchronous = OFF",
        "postgresql": "SET synchronous_commit = off",
        "mysql": "SELECT 1",  # global, and not ours to change
    }
    with connections["default"].cursor() as cursor:
        cursor.execute(weaken[connections["default"].vendor])
    try:
        found = database_ids()
    finally:
        connections.close_all()
    assert found == ([] if connections["default"].vendor == "mysql" else ["dbqueue.W002"])
