"""A server that is up and yet of no use: it kills, forgets, refuses, or takes no writes."""

import signal
import time
from contextlib import ExitStack, contextmanager, suppress

import pytest
from django.db import DatabaseError, connection, connections

from django_dbqueue.models import Worker
from django_dbqueue.worker.connections import reset_connections
from tests.kit.outage_scene import ALIAS, at_work, check_each_ran_once, notes, resumed, scene
from tests.kit.processes import QUICK, lines, worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note

pytest_plugins = "tests.kit.private_server"
pytestmark = pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite has no server")

KILLS = {
    "mysql": ["KILL %s", "KILL QUERY %s"],
    "postgresql": ["SELECT pg_terminate_backend(%s)", "SELECT pg_cancel_backend(%s)"],
}
# The server's own setting, and how to set it to {} for those that come.
FORGET = {
    "mysql": ["SET GLOBAL wait_timeout = {}"],
    "postgresql": ["ALTER ROLE worker SET idle_session_timeout = '{}s'"],
}
READ_ONLY = {
    "mysql": ["SET GLOBAL read_only = {}"],
    "postgresql": [
        "ALTER SYSTEM SET default_transaction_read_only = {}",
        "SELECT pg_reload_conf()",
    ],
}
CONNECTIONS = {
    "mysql": ["SET GLOBAL max_connections = {}"],
    "postgresql": ["ALTER ROLE worker CONNECTION LIMIT {}"],
}
LOGIN = {
    "mysql": ["ALTER USER worker@localhost ACCOUNT {}LOCK"],
    "postgresql": ["ALTER ROLE worker {}LOGIN"],
}
LET_NOBODY_IN = {"mysql": ("", "UN"), "postgresql": ("NO", "")}
ME = {"mysql": "SELECT CONNECTION_ID()", "postgresql": "SELECT pg_backend_pid()"}
USUAL_CONNECTIONS = 300
FEW_CONNECTIONS = 10  # MariaDB knows no fewer


@contextmanager
def set_to(private, statements, value, afterwards):
    """A setting of the server, for the length of a block."""
    for statement in statements[connection.vendor]:
        private.sql(statement.format(value))
    try:
        yield
    finally:
        for statement in statements[connection.vendor]:
            private.sql(statement.format(afterwards))


def kill(private, *numbers, statement=None):
    for number in numbers:
        with suppress(DatabaseError):  # it is gone already
            private.sql(statement or KILLS[connection.vendor][0], number)


@pytest.mark.proof
@pytest.mark.parametrize("statement", KILLS.get(connection.vendor, []))
def test_what_is_killed_one_by_one_under_load_loses_nothing(private, log, full, statement):
    count, seconds, killed = (2000, 0.01, 0) if full else (400, 0.05, 0)
    notes().bulk_create(Note(seconds=seconds, log=log) for _ in range(count))
    with worker(private.database_url, "--threads", "2") as process:
        wait_until(lambda: lines(log))
        while len(lines(log)) < count:
            for number in private.clients():
                before = len(lines(log))
                kill(private, number, statement=statement)
                killed += 1
                # On a busy machine each new connection would be killed before it is of any use.
                wait_until(lambda: len(lines(log)) > before or before == count)  # noqa: B023
        check_each_ran_once(log, process)
    assert killed > 5
    print(f"{count} jobs, {killed} times {statement!r}: 0 lost, 0 twice")


def test_a_worker_that_starts_while_its_connections_are_killed_goes_on_trying(private, log):
    notes().create(log=log)
    with worker(private.database_url) as process:
        wait_until(private.clients)
        until = time.monotonic() + 3
        while time.monotonic() < until:
            at_work(process)
            kill(private, *private.clients())
        check_each_ran_once(log, process)


def test_a_server_that_forgets_idle_connections_costs_no_attempt(private, log):
    slow = ["--sleep", "30", "--batch-size", "3"]
    with (
        set_to(private, FORGET, 2, 0 if connection.vendor == "postgresql" else 28800),
        worker(private.database_url, *slow, DBQUEUE_REAP_INTERVAL="30") as process,
    ):
        # Connect; then a long job, and at once after it one that needs the connection.
        notes().bulk_create(
            [
                Note(action="query", log=log),
                Note(seconds=3, log=log),
                Note(action="query", log=log),
            ]
        )
        check_each_ran_once(log, process)
        time.sleep(3)  # idle
        notes().create(action="query", log=log)
        check_each_ran_once(log, process)


@pytest.mark.proof
def test_no_job_runs_twice_when_the_server_took_no_writes(private, log, full):
    with scene(private, log, full) as made, set_to(private, READ_ONLY, 1, 0):
        time.sleep(made.seconds / 2)


@pytest.mark.proof
def test_no_job_runs_twice_when_the_server_let_nobody_in(private, log, full):
    """Its outcome is kept for longer than an error that no reason is known for."""
    given = LET_NOBODY_IN[connection.vendor]
    with scene(private, log, full) as made, set_to(private, LOGIN, *given):
        kill(private, *private.clients())
        time.sleep(made.seconds + 3)


def test_an_idle_worker_leaves_a_server_that_takes_no_writes_before_its_time_to_stop(private):
    with worker(private.database_url, "--shutdown-timeout", "300", **QUICK) as process:
        wait_until(private.clients)
        wait_until(lambda: Worker.objects.using(ALIAS).exists())
        with set_to(private, READ_ONLY, 1, 0):
            wait_until(lambda: "beating: " in process.stderr)
            process.send(signal.SIGTERM)
            assert process.end(60) == 0
    assert "leaving default without a word" in process.stderr


def test_a_job_that_an_error_ended_leaves_no_connection_to_a_server_of_the_past(private):
    """After a failover it may answer, and be read-only for ever."""
    left = connections[ALIAS]
    left.ensure_connection()
    left.errors_occurred = True
    reset_connections()
    assert left.connection is not None
    left.errors_occurred = True
    reset_connections(failed=True)
    assert left.connection is None


def test_a_worker_waits_while_the_server_has_no_connection_left_for_it(private, log):
    mine = set()
    notes().bulk_create(Note(seconds=0.02, log=log) for _ in range(200))
    with worker(private.database_url) as process:
        wait_until(lambda: len(lines(log)) > 5)
        with (
            private.connected(),
            set_to(private, CONNECTIONS, FEW_CONNECTIONS, USUAL_CONNECTIONS),
            ExitStack() as taken,
        ):
            wait_until(lambda: took_the_place_of(private, taken, mine))
            wait_until(lambda: "oo many connections" in process.stderr)
        print(f"after too many connections work resumed in {resumed(log):.1f} s")
        check_each_ran_once(log, process)


def took_the_place_of(private, taken, mine):
    """Take all connections; whether none is left to the worker."""
    kill(private, *set(private.clients()) - mine)
    while own := another():
        taken.callback(own.close)
        with own.cursor() as cursor:
            cursor.execute(ME[connection.vendor])
            mine.add(cursor.fetchone()[0])
    return set(private.clients()) <= mine


def another():
    """One more connection of the workers' account, or None."""
    own = connections[ALIAS].copy()
    own.settings_dict["USER"] = "worker"
    with suppress(DatabaseError):
        own.ensure_connection()
    return own if own.connection else None
