"""What the system checks say of ``Policy.exactly_once``."""

from itertools import count

import pytest
from django.core.management import call_command
from django.db import connection, connections, models
from django.test import override_settings
from django.test.utils import isolate_apps

from django_dbqueue.checks import tables
from django_dbqueue.checks.schema import missing_migrations
from django_dbqueue.lifecycle.policy import policy_of
from django_dbqueue.models import Job, Receipt
from django_dbqueue.worker.options import Options
from django_dbqueue.worker.served import parse_served
from tests.kit.effects_elsewhere import empty_database
from tests.queueapp.models import Fleeing, Recited, Transfer

pytestmark = pytest.mark.usefixtures("db_rows")


number = count()


class Elsewhere:
    def db_for_write(self, model, **hints):
        return "elsewhere" if model.__name__ == "Account" else None


@pytest.fixture(autouse=True)
def _throwaway_models():
    with isolate_apps("tests.queueapp"):
        yield


def said_of(value, *, seconds=60, **attributes):
    """The checks' ids and words about a table with this policy."""
    policy = type("Policy", (), {"exactly_once": value, "time_to_run": seconds})
    meta = type("Meta", (Job.Meta,), {"app_label": "queueapp", "abstract": False})
    body = {"__module__": "tests.queueapp.models", "Policy": policy, "Meta": meta} | attributes
    found = tables.check_table(type(f"Throwaway{next(number)}", (Job,), body))
    return [message.id for message in found], " ".join(f"{m.msg} {m.hint}" for m in found)


def test_sound_tables_pass():
    for model in (Transfer, Fleeing, Recited):
        assert tables.check_table(model) == []
    for value in (True, False, "default"):
        assert said_of(value) == ([], "")


@pytest.mark.parametrize("value", [None, 1, "", "nowhere", ["default"]])
def test_a_value_that_names_no_database_is_refused(value):
    ids, said = said_of(value)
    assert ids == ["dbqueue.E013"]
    assert repr(value) in said


def test_a_batch_is_refused():
    ids, said = said_of(True, run_batch=classmethod(lambda cls, jobs: None))
    assert ids == ["dbqueue.E013"]
    assert "run_batch" in said


@override_settings(DATABASE_ROUTERS=[Elsewhere()])
def test_a_foreign_key_into_another_database_is_refused():
    class Account(models.Model):
        class Meta:
            app_label = "queueapp"

    def account():
        return models.ForeignKey(Account, models.CASCADE)

    ids, said = said_of(True, account=account())
    assert ids == ["dbqueue.E013"]
    assert "account ('elsewhere')" in said


def test_a_long_time_to_run_is_warned_of():
    ids, said = said_of(True, seconds=61)
    assert ids == ["dbqueue.W004"]
    assert ("nobody else writes" in said) == (connection.vendor == "sqlite")
    assert said_of(False, seconds=300) == ([], "")


@pytest.fixture
def writes_aside(monkeypatch, tmp_path):
    """A queue table that writes to an empty database exactly once."""
    with empty_database(tmp_path):
        monkeypatch.setattr(Transfer.Policy, "exactly_once", "aside")
        policy_of.cache_clear()
        yield
    policy_of.cache_clear()


def test_a_database_that_counts_as_migrated_and_has_no_receipts_is_refused(writes_aside):
    call_command("migrate", "dbqueue", database="aside", fake=True, verbosity=0)
    [found] = tables.check_databases(databases=["aside"])
    assert found.id == "dbqueue.E016"
    assert "router" in found.hint
    with connections["aside"].schema_editor() as editor:
        editor.create_model(Receipt)
    assert tables.check_databases(databases=["aside"]) == []


@pytest.mark.parametrize("command", [["migrate"], ["migrate", "dbqueue"]], ids=" ".join)
def test_the_database_can_be_migrated_as_documented_and_a_worker_asks_for_it(writes_aside, command):
    served = parse_served(["queueapp.Transfer"])
    asked = missing_migrations({"default"}, Options(served=served).databases())
    assert asked.endswith("python manage.py migrate dbqueue --database aside")
    call_command(*command, database="aside", verbosity=0, skip_checks=False)
    assert tables.check_databases(databases=["aside"]) == []
    assert missing_migrations({"default"}, Options(served=served).databases()) == ""


def test_a_worker_has_the_database_checked_that_its_jobs_write_to(writes_aside):
    served = parse_served(["queueapp.Transfer", "queueapp.Fleeing"])
    assert Options(served=served).databases() == ["aside", "default"]
