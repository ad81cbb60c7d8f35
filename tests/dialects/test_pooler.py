"""Behind a pooler nothing is set for a session; a real one is in ``tests/cluster``."""

import logging
from contextlib import closing

import pytest
from django.db import Error, OperationalError, connection, connections, transaction
from django.test.utils import CaptureQueriesContext

from django_dbqueue.checks import tables
from django_dbqueue.dialects import dialect_of
from django_dbqueue.dialects.postgresql import PostgreSQL
from django_dbqueue.worker.heartbeat import Heartbeat
from django_dbqueue.worker.session import Session
from tests.kit.connections import other_connection
from tests.kit.jobs import table
from tests.queueapp.models import Note

pytestmark = [
    pytest.mark.usefixtures("db_rows"),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="only PostgreSQL is pooled"),
]
NAMES = "lock_timeout", "enable_seqscan", "jit", "idle_in_transaction_session_timeout"
DEFAULTS = ["0", "on", "on", "0"]
OURS = ["2s", "off", "off", "10s"]


def settings_of(one):
    with one.cursor() as cursor:
        cursor.execute("SELECT " + ", ".join(f"current_setting('{name}')" for name in NAMES))
        return list(cursor.fetchone())


def bare_settings():
    """What whoever is given this session next would find."""
    session = connections["default"].connection
    return [session.execute(f"SHOW {name}").fetchone()[0] for name in NAMES]


def is_of_pooler(wrapper):
    return "pooler" in type(wrapper).__module__


@pytest.fixture
def pooled(monkeypatch):
    """The server's process is another one than was connected to."""

    def says_so(self):
        return own_session(self).replace("pg_backend_pid() =", "-pg_backend_pid() =")

    own_session = PostgreSQL.own_session
    monkeypatch.setattr(PostgreSQL, "own_session", says_so)
    connections["default"].close()
    yield
    connections["default"].close()
    del connections["default"]


def prepare():
    def on_connect(dialect):
        dialect.keep_to_indexes()
        dialect.end_silent_transactions()
        dialect.listen()

    Session({"default"}, on_connect=on_connect).prepare()
    return connections["default"]


def test_a_session_of_our_own_has_its_settings_once():
    own = prepare()
    assert settings_of(own) == OURS
    assert bare_settings() == OURS
    own.close()


def test_behind_a_pooler_they_are_there_for_each_of_our_statements_and_for_nobody_else(pooled):
    own = prepare()
    assert settings_of(own) == OURS
    assert bare_settings() == DEFAULTS
    with transaction.atomic():
        assert settings_of(own) == OURS
    assert bare_settings() == DEFAULTS


def test_rows_counts_and_errors_are_those_of_the_statement_itself(pooled):
    own = prepare()
    job = Note.objects.create(text="50%")
    assert Note.objects.filter(text="50%").update(text="a") == 1
    assert Note.objects.filter(text="50%").update(text="b") == 0
    assert Note.objects.get(pk=job.pk).text == "a"
    with pytest.raises(Error, match="nowhere"), own.cursor() as cursor:
        cursor.execute("SELECT nowhere")
    with transaction.atomic():
        Note.objects.create()
        transaction.set_rollback(True)
    with transaction.atomic():
        with pytest.raises(Error, match="nowhere"), transaction.atomic(), own.cursor() as cursor:
            cursor.execute("SELECT nowhere")
        Note.objects.create()
    assert Note.objects.count() == 2
    assert len(list(Note.objects.all().iterator(chunk_size=1))) == 2
    assert bare_settings() == DEFAULTS


def test_they_end_with_the_connection_which_may_be_anybodys_then(pooled):
    own = prepare()
    own.close()
    assert settings_of(own) == DEFAULTS
    prepare()
    assert settings_of(own) == OURS


def test_our_statements_still_give_up_on_a_lock(pooled):
    prepare()
    job = Note.objects.create()
    # Else a test that fails would wait for ever.
    connections["default"].connection.execute("SET statement_timeout = '20s'")
    with closing(other_connection()) as other:
        other.set_autocommit(False)
        with other.cursor() as cursor:
            cursor.execute(f"SELECT 1 FROM {table().name} FOR UPDATE")
        with pytest.raises(OperationalError, match="lock timeout"):
            Note.objects.filter(pk=job.pk).update(text="a")


def test_a_claim_and_its_completion_are_no_more_statements(pooled):
    Note.objects.bulk_create(Note() for _ in range(4))
    counts = []
    prepare()
    for is_pooled in (True, False):
        if not is_pooled:
            wrappers = connections["default"].execute_wrappers
            wrappers[:] = [one for one in wrappers if not is_of_pooler(one)]
        with CaptureQueriesContext(connections["default"]) as queries:
            for job in Note.objects.claim(limit=2):
                job.complete()
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_nobody_listens_there_and_the_worker_says_so_once(pooled, monkeypatch, caplog):
    monkeypatch.setenv("DBQUEUE_NOTIFY", "1")
    own = prepare()
    assert dialect_of(own).descriptor is None
    assert own.connection.execute("SELECT pg_listening_channels()").fetchall() == []
    heartbeat = Heartbeat("a" * 32, "default", [], 1, 5)
    with caplog.at_level(logging.INFO, "django_dbqueue"):
        for _ in range(2):
            own.close()
            assert heartbeat.beat({})
    [line] = [one for one in caplog.records if "pooler" in one.getMessage()]
    assert line.levelno == logging.WARNING


def test_a_connection_that_leads_to_the_server_again_is_set_once_again(pooled, monkeypatch):
    own = prepare()
    monkeypatch.undo()
    own.close()
    own = prepare()
    assert bare_settings() == OURS
    assert not dialect_of(own).shares_sessions
    assert not any(map(is_of_pooler, own.execute_wrappers))


def test_a_check_names_the_pooler(monkeypatch):
    class Info:
        backend_pid = -1

    assert tables.check_databases(databases=["default"]) == []
    connections["default"].ensure_connection()
    monkeypatch.setattr(type(connections["default"].connection), "info", Info)
    [found] = tables.check_databases(databases=["default"])
    assert found.id == "dbqueue.W010"


def test_large_claims_take_no_turns_for_a_lock_of_the_session_would_be_somebody_elses(pooled):
    Note.objects.bulk_create(Note() for _ in range(100))
    with CaptureQueriesContext(prepare()) as queries:
        assert len(Note.objects.claim(limit=100)) == 100
    assert not any("advisory" in one["sql"] for one in queries)
