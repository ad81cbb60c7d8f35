"""A worker that a server or a reloader has started waits for tables that are missing."""

import pytest

from django_dbqueue.worker import startup
from django_dbqueue.worker.options import Options
from django_dbqueue.worker.served import all_served
from django_dbqueue.worker.startup import NotMigrated, Startup

pytestmark = pytest.mark.any_database


def test_what_is_to_be_run_is_said_once_until_it_is_something_else(db_rows, monkeypatch, capsys):
    monkeypatch.setattr(startup, "MIGRATED_CHECK_SECONDS", 0.01)
    missing = ["makemigrations", "makemigrations", "migrate", "migrate"]

    def prepare(_there):
        if missing:
            raise NotMigrated(missing.pop(0))

    assert Startup(Options(served=all_served()), prepare).run_once() == 0
    assert missing == []
    assert capsys.readouterr().err == "makemigrations\nmigrate\n"


def test_it_does_not_wait_for_longer_than_its_parent_lives(db_rows):
    def prepare(_there):
        raise NotMigrated("migrate")

    assert Startup(Options(served=all_served(), parent=1_000_000_000), prepare).run_once() == 0
