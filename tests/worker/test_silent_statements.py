"""A server that leaves a statement of ours without an answer holds no thread for ever."""

import threading
import time

import pytest
from django.db import DatabaseError, InterfaceError, connection

from django_dbqueue.torture import proxy
from django_dbqueue.torture.proxy import Way
from django_dbqueue.worker.session import StatementWatchdog, connect_impatiently
from tests.kit.connections import other_connection
from tests.kit.processes import lines, wait_for_lines, worker
from tests.kit.silent_server import DeafLater, proxied
from tests.kit.waiting import wait_until
from tests.queueapp.models import Mailed, Note

pytestmark = [
    pytest.mark.usefixtures("db_rows"),
    pytest.mark.skipif(connection.vendor == "sqlite", reason="it is a file"),
]
TIMING = {"DBQUEUE_BEAT_INTERVAL": "0.5", "DBQUEUE_WORKER_TIMEOUT": "4"}
SILENCE = 6.0  # seconds; a statement of ours is given up after 3
RESUMES_WITHIN = 10.0  # seconds; 3 are promised, and a busy machine is slow


@pytest.mark.parametrize("model", [Note, Mailed])
@pytest.mark.parametrize("way", [Way.SWALLOW, Way.MUTE, Way.HALF_OPEN])
def test_work_resumes_soon_after_a_silence(database_url, log, model, way):
    """Outcomes are written by the finisher's thread, or each by its runner's."""
    with proxied() as silent, worker(silent.url, model._meta.label, **TIMING) as process:
        model.objects.create(log=log)
        wait_for_lines(log, 1)
        model.objects.bulk_create(model(log=log) for _ in range(300))
        wait_for_lines(log, 50)
        silent.proxy.be(way)
        time.sleep(SILENCE)
        silent.proxy.be(Way.PASS)
        healed, last = time.monotonic(), model.objects.create(log=log, queue="healed")
        wait_until(lambda: str(last.pk) in " ".join(lines(log)).split(), seconds=30)
        resumed = time.monotonic() - healed
        wait_until(lambda: not model.objects.exclude(status=2).exists(), seconds=30)
    print(f"{model.__name__} resumed {resumed:.1f} s after {way.name}")
    assert resumed < RESUMES_WITHIN, process.stderr
    assert "taken for dead" not in process.stderr


@pytest.mark.parametrize("is_lent", [False, True])
@pytest.mark.parametrize("hears", range(6))
def test_a_connect_is_given_up_wherever_the_server_falls_silent(monkeypatch, hears, is_lent):
    watchdog, ends = StatementWatchdog(), []

    def ask():
        own = through(silent)
        try:
            if is_lent:
                with watchdog.watches(own):
                    own.cursor().execute("SELECT 1")
            else:
                connect_impatiently(own)
                watchdog.watch(own)
                own.cursor().execute("SELECT 1")
        except (DatabaseError, InterfaceError) as error:
            ends.append(error)
        else:
            ends.append(None)
        finally:
            own.close()

    monkeypatch.setattr(proxy, "Link", DeafLater)
    monkeypatch.setattr(DeafLater, "hears", hears)
    with proxied() as silent:
        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        wait_until(lambda: watchdog.end_waits(0.5) or not asking.is_alive(), seconds=20, every=0.1)
    [error] = ends
    assert error or hears > 1


def test_a_slow_connect_has_the_time_that_the_project_gives_it():
    watchdog, made = StatementWatchdog(), []

    def ask():
        own = through(silent)
        own.settings_dict["OPTIONS"]["connect_timeout"] = 20
        watchdog.watch(own)
        made.append(own.get_new_connection(own.get_connection_params()))
        made[0].close()

    with proxied() as silent:
        silent.proxy.be(Way.DELAY, seconds=0.3)
        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        wait_until(lambda: watchdog.end_waits(0.2) or not asking.is_alive(), seconds=60, every=0.1)
    assert made


def commit(own):
    own.set_autocommit(False)
    own.cursor().execute("SELECT 1")
    return own.commit


def roll_back(own):
    own.set_autocommit(False)
    own.cursor().execute("SELECT 1")
    return own.rollback


def leave_autocommit(own):
    own.cursor().execute("SELECT 1")
    own.set_autocommit(False)
    own.cursor().execute("SELECT 1")
    own.rollback()
    return lambda: own.set_autocommit(True) or own.cursor().execute("SELECT 1")


def begin_a_session(own):
    zone = "TIME ZONE 'Asia/Tokyo'" if own.vendor == "postgresql" else "sql_auto_is_null = 1"
    own.cursor().execute(f"SET {zone}")
    # Looked up late, as Django does, since it may be replaced meanwhile.
    return own.wrap_database_errors(lambda: own.init_connection_state())  # noqa: PLW0108


def look_whether_it_is_usable(own):
    """As Django does before a statement, with ``CONN_HEALTH_CHECKS``."""
    own.cursor().execute("SELECT 1")
    own.settings_dict = own.settings_dict | {"CONN_HEALTH_CHECKS": True}
    own.close_if_unusable_or_obsolete()
    own.health_check_enabled, own.health_check_done = True, False
    return own.cursor


ASKING = [commit, roll_back, leave_autocommit, begin_a_session, look_whether_it_is_usable]


@pytest.mark.parametrize("is_lent", [False, True])
@pytest.mark.parametrize("prepare", ASKING)
def test_what_asks_a_silent_server_without_a_cursor_is_given_up(prepare, is_lent):
    """``is_lent``: a job's connection, on which its worker does something."""
    watchdog, ends = StatementWatchdog(), []

    def ask():
        own = through(silent)
        try:
            given_up(own, watchdog, prepare, is_lent, silent)
        except (DatabaseError, InterfaceError) as error:
            ends.append(error)
        finally:
            own.close()

    with proxied() as silent:
        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        wait_until(lambda: watchdog.end_waits(0.5) or not asking.is_alive(), seconds=60, every=0.1)
    assert len(ends) == 1


def test_a_jobs_connection_is_afterwards_as_it_was():
    own = other_connection()
    vars(own)["_commit"] = somebodys = object()
    settings = own.settings_dict
    with StatementWatchdog().watches(own):
        assert own.settings_dict["OPTIONS"]["connect_timeout"] == 2
        assert own._commit is not somebodys
    assert own.settings_dict is settings
    assert own._commit is somebodys
    names = {"_rollback", "_set_autocommit", "is_usable", "get_new_connection"}
    assert not names & vars(own).keys()
    assert own.execute_wrappers == []


def given_up(own, watchdog, prepare, is_lent, silent):
    if not is_lent:
        connect_impatiently(own)
        watchdog.watch(own)
    call = prepare(own)
    silent.proxy.be(Way.SWALLOW)
    if is_lent:
        with watchdog.watches(own):
            call()
    else:
        call()


def through(silent):
    own = other_connection()
    options = {k: v for k, v in own.settings_dict["OPTIONS"].items() if k != "unix_socket"}
    to_proxy = {"HOST": "127.0.0.1", "PORT": str(silent.proxy.port), "OPTIONS": options}
    own.settings_dict = own.settings_dict | to_proxy
    return own
