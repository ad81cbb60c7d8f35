"""Workers, and the web, behind PgBouncer, in both of its modes."""

import os
import signal
import threading
import time
from collections import Counter
from contextlib import ExitStack

import pytest
from database_servers import PostgreSQL
from django.db import connections
from pgbouncer_server import PgBouncer

from django_dbqueue.dialects import dialect_of
from django_dbqueue.worker.session import Session
from tests.kit.clusters import alias_to, ask, check_ids, migrate, short_folder
from tests.kit.outage_scene import ALIAS, FAST, at_work
from tests.kit.processes import lines, worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Effect, Note, Transfer

psycopg = pytest.importorskip("psycopg")
pytestmark = [pytest.mark.cluster, pytest.mark.process, pytest.mark.any_database]
# What a worker of ours would change, with what the web is to find.
WEB = {
    "lock_timeout": "0",
    "enable_seqscan": "on",
    "enable_sort": "on",
    "jit": "on",
    "idle_in_transaction_session_timeout": "0",
}
LOOK = (
    "SELECT " + ", ".join(f"current_setting('{name}')" for name in WEB) + ", pg_backend_pid(), "
    "ARRAY(SELECT pg_listening_channels())"
)
JOBS = 300


@pytest.fixture(scope="module")
def postgresql(django_db_blocker):
    with short_folder() as folder, django_db_blocker.unblock():
        server = PostgreSQL(folder)
        server.start()
        try:
            with alias_to(server.url()):
                migrate(ALIAS)
            yield server
        finally:
            server.stop()


@pytest.fixture(params=["session", "transaction"])
def pool(request, postgresql, django_db_blocker):
    """PgBouncer; the alias leads to the server itself, with empty tables."""
    # In session mode a client has a session for as long as it is connected.
    size = 4 if request.param == "transaction" else 40
    with short_folder() as folder, django_db_blocker.unblock(), alias_to(postgresql.url()):
        for model in (Note, Transfer, Effect):
            model._base_manager.using(ALIAS).all()._raw_delete(ALIAS)
        server = PgBouncer(folder, postgresql, request.param, size)
        server.start()
        try:
            yield server
        finally:
            server.stop()


class Web(threading.Thread):
    """Asks for its settings, by connections that it keeps and by new ones, as views do."""

    def __init__(self, url):
        super().__init__()
        self.url = url
        self.over = threading.Event()
        self.looks = 0
        self.pids = set()
        self.wrong = Counter()

    def run(self):
        while not self.over.is_set():
            try:
                with psycopg.connect(self.url, autocommit=True, prepare_threshold=None) as web:
                    for _ in range(50):
                        self.look(web)
                        self.over.wait(0.002)
            except psycopg.OperationalError:
                self.over.wait(0.05)  # its backend was killed

    def look(self, web):
        *found, pid, channels = web.execute(LOOK).fetchone()
        self.looks += 1
        self.pids.add(pid)
        for (name, expected), value in zip(WEB.items(), found, strict=True):
            if value != expected:
                self.wrong[f"{name}={value}"] += 1
        if channels:
            self.wrong["listens"] += 1

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()


def fill(log):
    Note.objects.using(ALIAS).bulk_create(Note(seconds=0.01, log=log) for _ in range(JOBS))
    Transfer.objects.using(ALIAS).bulk_create(Transfer() for _ in range(JOBS))


def left():
    tables = (Note, Transfer)
    return sum(one._base_manager.using(ALIAS).exclude(status=2).count() for one in tables)


def has_done(share):
    return left() < 2 * JOBS * (1 - share)


def check_all_are_done_and_no_effect_twice(log):
    wait_until(lambda: left() == 0, seconds=120)
    starts = Counter(line.split()[0] for line in lines(log))
    assert len(starts) == JOBS
    effects = Counter(Effect.objects.using(ALIAS).values_list("job", flat=True))
    assert len(effects) == JOBS
    assert set(effects.values()) == {1}
    return sum(starts.values()) - JOBS


def backends():
    """Of PgBouncer's clients: not the test's own, which goes past it."""
    return ask(
        ALIAS,
        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' "
        "AND datname = current_database() AND pid <> pg_backend_pid()",
    )


def test_what_is_set_for_our_own_statements_reaches_no_web_connection(pool, log):
    fill(log)
    arguments = ["--processes", "2", "--threads", "2"]
    with Web(pool.url()) as web, worker(pool.url(), *arguments, DBQUEUE_NOTIFY="1") as process:
        repeated = check_all_are_done_and_no_effect_twice(log)
        wait_until(lambda: web.looks > 300)
        at_work(process)
    said = [line for line in process.stderr.splitlines() if "pooler" in line]
    print(f"{pool.mode}: {web.looks} looks of the web at {len(web.pids)} sessions: {web.wrong}")
    assert not web.wrong
    assert repeated == 0
    assert len([line for line in said if "dbqueue.W010" not in line]) == 1, said


def test_workers_and_children_are_killed_behind_it(pool, log):
    fill(log)
    with ExitStack() as stack, Web(pool.url()) as web:
        made = [stack.enter_context(start(pool)) for _ in range(2)]
        for share in (0.1, 0.25, 0.4):
            wait_until(lambda share=share: has_done(share))
            os.kill(made[0].children()[0], signal.SIGKILL)
        wait_until(lambda: has_done(0.55))
        made[1].kill()
        stack.enter_context(start(pool))
        repeated = check_all_are_done_and_no_effect_twice(log)
    print(f"{pool.mode}: 3 children and a worker killed: {repeated} of {JOBS} repeated")
    assert not web.wrong


def test_sessions_of_the_server_are_killed_behind_it(pool, log):
    fill(log)
    killed = 0
    with Web(pool.url()) as web, start(pool) as process:
        while left() > 2 * JOBS * 0.3:
            for (pid,) in backends():
                ask(ALIAS, "SELECT pg_terminate_backend(%s)", pid)
                killed += 1
            time.sleep(0.3)
        repeated = check_all_are_done_and_no_effect_twice(log)
        at_work(process)
    print(f"{pool.mode}: {killed} sessions killed: {repeated} of {JOBS} repeated")
    assert not web.wrong


def start(pool):
    return worker(pool.url(), "--processes", "2", "--threads", "2", **FAST)


def test_our_statements_give_up_on_locks_and_look_by_index_behind_it(pool):
    [job] = Note.objects.using(ALIAS).bulk_create([Note()])
    with alias_to(pool.url(), "pooled"):
        session = Session({"pooled"}, on_connect=lambda dialect: dialect.keep_to_indexes())
        session.prepare()
        assert dialect_of(connections["pooled"]).shares_sessions
        assert ask("pooled", LOOK)[0][:4] == ("2s", "off", "off", "off")
        with psycopg.connect(pool.upstream.url()) as other:
            other.execute("SELECT 1 FROM queueapp_note FOR UPDATE")
            with pytest.raises(Exception, match="lock timeout"):
                Note.objects.using("pooled").filter(pk=job.pk).update(text="a")


def test_the_check_names_it(pool):
    with alias_to(pool.url(), "pooled"):
        assert check_ids("pooled") == {"dbqueue.W010"}
    assert check_ids(ALIAS) == set()


def test_a_new_job_starts_as_soon_as_by_looking(pool, log):
    """What was measured before: nobody listened, and nobody looked any sooner."""
    seconds = []
    with worker(pool.url(), DBQUEUE_NOTIFY="1") as process:
        for number in range(20):
            Note.objects.using(ALIAS).create(log=log)
            began = time.monotonic()
            wait_until(lambda number=number: len(lines(log)) > number, every=0.001)
            seconds.append(time.monotonic() - began)
        at_work(process)
    print(f"{pool.mode}: a start after {sorted(seconds)[10] * 1000:.0f} ms (median)")
