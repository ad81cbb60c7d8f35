"""``dbqueue check``: finds rows that should not be, and nothing where workers merely work."""

import json
import os
import signal
import uuid
from contextlib import contextmanager
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, connections, transaction
from django.db.models import QuerySet
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_dbqueue.diagnose import check as examination
from django_dbqueue.diagnose.check import IntegrityCheck, check_integrity
from django_dbqueue.diagnose.rules import ERRORS, ROW
from django_dbqueue.fields import DbNow
from django_dbqueue.lifecycle.archive import copy_to_archive
from django_dbqueue.models import Worker
from tests.kit.broken_rows import edit, lax
from tests.kit.jobs import buried, claimed, done, overwrite, table, table_locked
from tests.kit.processes import worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import ArchivedKept, Kept, Note

pytestmark = pytest.mark.usefixtures("db_rows")

LONG_AGO = "'2020-01-01 00:00:00'"
CLAIMED = "status = 1, owner = 'me.1'"
# What a hand wrote, and what is said about it.
FOUND = {
    "status = 77": "has an unknown status",
    f"status = 1, owner = NULL, retry_at = {LONG_AGO}": "is claimed by nobody",
    f"status = 1, owner = '', retry_at = {LONG_AGO}": "is claimed by nobody",
    f"{CLAIMED}, retry_at = NULL": "is claimed for ever",
    f"{CLAIMED}, retry_at = {LONG_AGO}": "is claimed, and its time was over long ago",
    "status = 3, retry_at = NULL": "is delayed for ever",
    f"retry_at = {LONG_AGO}": "has a retry_at, although it does not move by itself",
    f"status = 4, finished_at = {LONG_AGO}, retry_at = {LONG_AGO}": (
        "has a retry_at, although it does not move by itself"
    ),
    "owner = 'me.1'": "has an owner, although it is not claimed",
    "status = 4": "is finished, without finished_at",
    "status = 2, owner = 'me.1'": "is finished, without finished_at",
    f"finished_at = {LONG_AGO}": "has a finished_at, although it is not finished",
    "attempts = 2147483647": "has attempts out of range",
    "crashes = 4": "has crashes out of range",
    "losses = 32767": "has losses out of range",
    "priority = -1": "has a priority out of range",
    "time_to_run = 2147483647": "has a time_to_run out of range: the table's own is used",
    "queue = ' a'": "has a queue that is no name: queue must not begin or end with a space: ' a'",
    "queue = ''": "has a queue that is no name: queue must be a non-empty string, not ''",
    "dedup_key = 'a\t'": (
        "has a dedup_key that is no name: dedup_key must not begin or end with a space: 'a\\t'"
    ),
    "created_at = '2099-01-01 00:00:00'": "was enqueued in the future",
    """errors = '{"a": 1}'""": "has errors that are no list",
    "errors = 'null'": "has errors that are no list",
}
FAST = {
    "DBQUEUE_BEAT_INTERVAL": "0.2",
    "DBQUEUE_WORKER_TIMEOUT": "1",
    "DBQUEUE_REAP_INTERVAL": "0.2",
}


@pytest.fixture(autouse=True)
def looks_again_soon(settings, monkeypatch):
    """Where nothing else is at work, what is wrong stays so."""
    monkeypatch.setattr(examination, "RECHECK_SECONDS", 0.02)
    settings.DBQUEUE = {"REAP_INTERVAL": 0.02}


@pytest.fixture
def before_the_second_look(monkeypatch):
    def call(work):
        look = IntegrityCheck._by_key

        def late(self, keys):
            work()
            return look(self, keys)

        monkeypatch.setattr(IntegrityCheck, "_by_key", late)

    return call


@pytest.fixture
def waits(monkeypatch):
    """How long it waits before its second look, which comes at once."""
    found = []

    class Event:
        def wait(self, seconds):
            found.append(seconds)

    monkeypatch.setattr(examination, "Event", Event)
    return found


def check(*args):
    """What it prints, and its exit code."""
    out = StringIO()
    try:
        call_command("dbqueue", "check", "--database", "default", *args, stdout=out)
    except CommandError as error:
        return out.getvalue(), error.returncode
    return out.getvalue(), 0


def found(*args):
    """What is wrong with each job, by its id."""
    text, code = check("--json", *args)
    findings = json.loads(text)["findings"]
    assert code == bool(findings)
    return {int(finding["id"]): finding["what"] for finding in findings}


def broken(sets, model=Note):
    job = model.objects.create()
    edit(job, sets)
    return job


def one_of_each():
    """Every state that the lifecycle leaves a job in."""
    delayed, _ = Note.objects.enqueue(delay=3600)
    failed = claimed()
    failed.fail("no")
    Note.objects.enqueue(expires_at="2020-01-01T00:00:00Z")
    kicked = buried()
    Note.objects.filter(pk=kicked.pk).kick()
    by_hand = Note.objects.create()
    Note.objects.filter(pk=by_hand.pk).bury()
    adopted = Note.objects.create()
    edit(adopted, "status = 2")
    return [Note.objects.create(), done(), done(Kept), buried(), claimed(queue="mine"), delayed]


def test_all_states_of_the_lifecycle_are_clean():
    one_of_each()
    text, code = check()
    assert code == 0
    assert text.endswith("queue tables: nothing found\n")
    assert len(text.splitlines()) == 1


def test_each_finding_is_told_by_its_row():
    good = one_of_each()
    expected = {broken(sets).pk: what for sets, what in FOUND.items()}
    assert found() == expected
    assert not {job.pk for job in good if isinstance(job, Note)} & expected.keys()


def test_every_rule_has_a_row_that_breaks_it():
    elsewhere = {"is in the archive, too", "has an id that will be given out again"}
    assert {one.words for one in ROW + ERRORS} - elsewhere <= {*FOUND.values()}


def test_a_finding_names_table_row_trouble_and_advice():
    job = broken("status = 77")
    text, code = check()
    assert code == 1
    assert f"queueapp.note {job.pk} has an unknown status\n    no worker will ever" in text
    [finding] = json.loads(check("--json")[0])["findings"]
    assert {**finding, "advice": ""} == {
        "database": "default",
        "table": "queueapp.note",
        "id": str(job.pk),
        "queue": "default",
        "owner": None,
        "what": "has an unknown status",
        "advice": "",
    }


def test_a_job_in_both_places():
    job = done(Kept)
    copy_to_archive(table(Kept), [job.pk])
    assert found() == {job.pk: "is in the archive, too"}


def test_a_job_in_both_places_is_found_behind_an_archived_one_without_a_time(monkeypatch):
    monkeypatch.setattr("django_dbqueue.diagnose.check.ROWS_MAX", 1)
    timeless, _, both, _ = [done(Kept) for _ in range(4)]
    copy_to_archive(table(Kept), [timeless.pk, both.pk])
    QuerySet(Kept).filter(pk=timeless.pk)._raw_delete("default")
    edit(ArchivedKept(pk=timeless.pk), "finished_at = NULL")
    assert found() == {both.pk: "is in the archive, too"}


@contextmanager
def constraint_lost(model):
    [constraint] = model._meta.constraints
    with connection.schema_editor() as editor:
        editor.execute(constraint.remove_sql(model, editor))
    try:
        yield
    finally:
        model._base_manager.all()._raw_delete("default")
        with connection.schema_editor() as editor:
            editor.execute(constraint.create_sql(model, editor))


def test_two_jobs_with_one_dedup_key():
    with constraint_lost(Note):
        twins = [broken("dedup_key = 'a'") for _ in range(2)]
        broken("dedup_key = 'a', queue = 'other'")
        broken("dedup_key = 'A'")
        assert {*found()} == {twin.pk for twin in twins}


def test_more_twins_than_are_shown_are_told():
    with constraint_lost(Note):
        for key in "aabb":
            broken(f"dedup_key = '{key}'")
        assert "there are more" in check("--rows", "2")[0]


LOCK_PATIENCE = {
    "mysql": "SELECT @@lock_wait_timeout, @@innodb_lock_wait_timeout",
    "postgresql": "SHOW lock_timeout",
    "sqlite": "PRAGMA busy_timeout",
}


def lock_patience():
    with connection.cursor() as cursor:
        cursor.execute(LOCK_PATIENCE[connection.vendor])
        return cursor.fetchone()


def test_the_callers_connection_is_as_patient_as_before():
    before = lock_patience()
    assert check_integrity("default").is_clean
    assert lock_patience() == before


def test_a_transaction_of_the_callers_goes_on():
    with transaction.atomic():
        before = lock_patience()
        kept = Note.objects.create()
        assert check_integrity("default").is_clean
        assert lock_patience() == before
    assert Note.objects.get() == kept


def held_by(uuid, number="1-1"):
    job = claimed()
    overwrite(job, owner=f"{uuid}.{number}")
    return job.pk


def a_worker(**columns):
    row = Worker.objects.create(uuid=uuid.uuid4().hex, host="web1", pid=1, **columns)
    return row.uuid


@pytest.mark.usefixtures("waits")
def test_claims_of_workers_that_are_gone(settings):
    settings.DBQUEUE = {"WORKER_TIMEOUT": 10, "REAP_INTERVAL": 20}
    claimed()
    held_by(a_worker())
    held_by(a_worker(beat_at=DbNow(plus=-11)))
    held_by(uuid.uuid4().hex, "1")  # a loop of one's own
    held_by(a_worker(), "1")
    expected = {
        held_by(a_worker(stopped_at=DbNow()), "1"): "has stopped",
        held_by(uuid.uuid4().hex): "is not known",
        held_by(a_worker(stopped_at=DbNow())): "has stopped",
        held_by(a_worker(beat_at=DbNow(plus=-51))): "has not beaten for long",
    }
    expected = {key: f"is claimed by a worker that {state}" for key, state in expected.items()}
    assert found() == expected


@pytest.mark.usefixtures("waits")
def test_a_beat_that_is_no_instant_makes_a_worker_a_silent_one():
    key = held_by(a_worker())
    none = {"sqlite": "", "mysql": "0000-00-00 00:00:00", "postgresql": "-infinity"}
    with lax(), connection.cursor() as cursor:
        sql = f"UPDATE {Worker._meta.db_table} SET beat_at = %s"
        cursor.execute(sql, [none[connection.vendor]])
    assert found() == {key: "is claimed by a worker that has not beaten for long"}


def test_what_is_mended_before_the_second_look_was_work(before_the_second_look):
    job, lasting = broken("status = 77"), broken("status = 77")
    before_the_second_look(lambda: edit(job, "status = 0"))
    assert [finding.id for finding in check_integrity("default").findings] == [str(lasting.pk)]


def test_a_claim_that_passed_to_another_owner_is_not_the_same(before_the_second_look):
    key = held_by(uuid.uuid4().hex)
    before_the_second_look(lambda: overwrite(Note(pk=key), owner=f"{uuid.uuid4().hex}.1-1"))
    assert check_integrity("default").findings == []


def test_the_second_look_comes_after_a_reaper_had_time_to_come_by(settings, waits):
    broken("status = 77")
    settings.DBQUEUE = {"REAP_INTERVAL": 0.3}
    check_integrity("default")
    assert waits == [0.3]


def test_no_more_rows_are_shown_than_asked_for():
    for _ in range(5):
        broken("status = 77")
    broken("status = 3")
    text, code = check("--rows", "2")
    assert code == 1
    assert text.count("unknown status\n") == 2
    assert "queueapp.note has an unknown status: there are more; --rows shows them" in text
    assert "delayed for ever" in text
    text, _ = check("--rows", "5")
    assert text.count("unknown status\n") == 5
    assert "more" not in text


@pytest.mark.parametrize("rows", ["0", "10001", "-1", "many", ""])
def test_a_wrong_number_of_rows_is_refused(rows):
    with pytest.raises(CommandError, match="between 1 and 10000"):
        call_command("dbqueue", "check", f"--rows={rows}")


def test_an_unknown_database_is_refused():
    with pytest.raises(CommandError, match="'nosuch' is no database alias; known: default"):
        call_command("dbqueue", "check", "--database", "nosuch")


def queries():
    with CaptureQueriesContext(connection) as captured:
        assert check_integrity("default").is_clean
    return [query["sql"] for query in captured]


def test_as_many_queries_for_a_large_table_as_for_a_small_one_and_none_that_writes():
    Note.objects.create()
    few = queries()
    for status in (0, 2, 3):
        Note.objects.bulk_create([Note() for _ in range(1500)])
        edit_ready = f"UPDATE {table().name} SET status = {status}"
        with connection.cursor() as cursor:
            times = ", retry_at = '2099-01-01 00:00:00'" if status == 3 else ""
            cursor.execute(f"{edit_ready}{times} WHERE status = 0")
    many = queries()
    assert len(many) == len(few)
    verbs = {sql.split()[0] for sql in many}
    assert verbs <= {"SELECT", "SET", "PRAGMA"}
    assert not any("FOR UPDATE" in sql or "COUNT(" in sql for sql in many)
    assert all("LIMIT" in sql for sql in many if "queueapp_note" in sql)


class Elsewhere:
    """Sends one queue table to another database."""

    def db_for_write(self, model, **_):
        return "away" if model.__name__ == "Kept" else None

    db_for_read = db_for_write


@contextmanager
def database(**settings):
    """The alias ``away``, where the queue table Kept is."""
    connections.databases["away"] = connections["default"].settings_dict | settings
    try:
        with override_settings(DATABASE_ROUTERS=[Elsewhere()]):
            yield
    finally:
        if hasattr(connections._connections, "away"):  # type: ignore[attr-defined]
            connections["away"].close()
            del connections["away"]
        del connections.databases["away"]


SQLITE = {"ENGINE": "django.db.backends.sqlite3", "OPTIONS": {}}
AWAY: dict[str, dict[str, Any]] = {
    "database away was not checked: unable to open database file": SQLITE
    | {"NAME": "/nowhere/at.all"},
    "No module named 'oracledb'": {
        "ENGINE": "django.db.backends.oracle",
        "NAME": "a",
    },
    "database away was not checked: 'no.driver' isn't an available database backend": {
        "ENGINE": "no.driver",
    },
    "queueapp.kept on away was not checked: no such table": SQLITE | {"NAME": ":memory:"},
}


@pytest.mark.parametrize("words", AWAY)
def test_a_database_that_cannot_be_read_is_named_and_the_others_are_checked(words):
    job = broken("status = 77")
    out = StringIO()
    with database(**AWAY[words]), pytest.raises(CommandError, match="1 could not be checked"):
        call_command("dbqueue", "check", stdout=out)
    assert words in out.getvalue()
    assert f"queueapp.note {job.pk} has an unknown status" in out.getvalue()
    assert "Traceback" not in out.getvalue()


def test_a_table_that_somebody_has_locked_is_not_waited_for():
    """On SQLite readers pass."""
    job = done(Kept)
    copy_to_archive(table(Kept), [job.pk])
    with table_locked(Note):
        examined = check_integrity("default")
    assert [finding.table for finding in examined.findings] == ["queueapp.kept"]
    locked = [] if connection.vendor == "sqlite" else ["queueapp.note"]
    assert [one.table for one in examined.unchecked] == locked


def test_no_findings_while_workers_work_are_killed_and_relieved(
    database_url, settings, monkeypatch
):
    # Who takes over from a killed worker may be slow on a busy machine.
    monkeypatch.setattr(examination, "RECHECK_SECONDS", 8.0)
    settings.DBQUEUE = {}
    for name, value in FAST.items():
        monkeypatch.setenv(name, value)
    args = ("queueapp.Note", "--processes", "2", "--batch-size", "5")
    jobs = [Note(seconds=0.02, text=str(n), dedup_key=str(n)) for n in range(150)]
    Note.objects.bulk_create(jobs)
    Note.objects.bulk_create([Note(action="fail", dedup_key=f"fails {n}") for n in range(5)])
    left = Note.objects.exclude(status__in=(2, 4))
    with worker(database_url, *args) as one, worker(database_url, *args) as two:
        wait_until(lambda: len(one.children()) == len(two.children()) == 2)
        wait_until(lambda: left.count() < 130)
        os.kill(two.children()[0], signal.SIGKILL)
        assert found() == {}
        one.send_group(signal.SIGKILL)
        while left.exists():
            assert found() == {}
        two.send(signal.SIGTERM)
        assert two.end() == 0
    assert found() == {}


@pytest.mark.parametrize("sets", ["status = 77", """errors = '{"a": 1}'"""])
def test_a_row_that_both_ends_of_the_table_lead_to_is_told_of_once(sets):
    jobs = [broken(sets) for _ in range(3)]
    found = check_integrity("default", shown=3)
    assert [finding.id for finding in found.findings] == [str(job.pk) for job in jobs]
    assert found.more == []
