"""A database that does not answer: nobody waits for it who has something else to do."""

import signal
import socket
import time

import pytest
from django.db import connection, connections
from django.db.utils import OperationalError

from django_dbqueue.states import Status
from django_dbqueue.torture.proxy import Way
from django_dbqueue.worker.session import Session, connect_impatiently
from tests.kit.jobs import start
from tests.kit.processes import has_ended, lines, wait_for_lines, worker
from tests.kit.silent_server import oldest, proxied
from tests.kit.two_databases import Two, name_in
from tests.kit.user_project import own_database
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note

TIMING = {"DBQUEUE_BEAT_INTERVAL": "0.5", "DBQUEUE_WORKER_TIMEOUT": "4"}
SILENCES = [way for way in Way if way is not Way.PASS]
LATE = 3.0  # seconds; 2 are promised, beyond what it takes when all is well
VERY_LATE = 10.0  # what may take so long on a busy machine
LONGER = {"DBQUEUE_WORKER_TIMEOUT": "20"}  # and a connection is given up after three quarters
needs_a_server = pytest.mark.skipif(connection.vendor == "sqlite", reason="it is a file")


@pytest.fixture
def mute(monkeypatch):
    """An alias whose server takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = {"HOST": "127.0.0.1", "PORT": server.getsockname()[1], "OPTIONS": {}}
        monkeypatch.setitem(connections.settings, "mute", connection.settings_dict | place)
        yield connections["mute"].alias
        del connections["mute"]


@needs_a_server
@pytest.mark.usefixtures("db_rows")
def test_a_connect_of_ours_to_a_server_that_does_not_answer_fails_soon(mute):
    with pytest.raises(OperationalError):
        start(Session({mute}).prepare).result(seconds=10)


@needs_a_server
def test_a_project_that_says_how_long_a_connect_may_take_is_heeded(mute):
    connections.settings[mute]["OPTIONS"] = {"connect_timeout": 7}
    connect_impatiently(connections[mute])
    assert connections[mute].settings_dict["OPTIONS"]["connect_timeout"] == 7


@needs_a_server
def test_other_threads_of_the_project_connect_as_before(mute):
    connect_impatiently(connections[mute])
    assert connections.settings[mute]["OPTIONS"] == {}


@pytest.fixture
def silent():
    """The test database behind a proxy."""
    with proxied() as found:
        yield found


def word_is_kept(url, proxy, way, log, health, late, timing):
    """A worker with a job over its time to run and another one, that is told to stop."""
    jobs = [Note(log=log, seconds=60, time_to_run=n) for n in (3, 100)]
    Note.objects.bulk_create(jobs)
    options = ["--threads", "2", "--shutdown-timeout", "1", "--health-file", health]
    with worker(url, "queueapp.Note", *options, **timing) as process:
        child = int(wait_for_lines(log, 2)[0].split()[-1])
        begin = time.monotonic()
        proxy.be(way, seconds=2 * late)
        age = oldest(health, lambda: has_ended(child))
        killed_after = time.monotonic() - begin
        process.send(signal.SIGTERM)
        told = time.monotonic()
        assert process.end(60) == 0
        left_after = time.monotonic() - told
    print(f"{way.name}: health {age:.1f} s, killed {killed_after:.1f} s, left {left_after:.1f} s")
    assert age < 1 + late
    assert killed_after < 3 + late
    assert left_after < 1 + late


@needs_a_server
@pytest.mark.usefixtures("db_rows")
@pytest.mark.parametrize("way", [Way.SWALLOW, Way.DELAY])
def test_a_worker_keeps_its_word_while_its_database_is_silent(silent, way, log, tmp_path):
    health = str(tmp_path / "health")
    word_is_kept(silent.url, silent.proxy, way, log, health, VERY_LATE, TIMING | LONGER)


@needs_a_server
@pytest.mark.nightly
@pytest.mark.usefixtures("db_rows")
@pytest.mark.parametrize("settings", ["url", "recommended_url"])
@pytest.mark.parametrize("way", SILENCES)
def test_so_it_does_by_default_with_recommended_settings_and_without(
    silent, way, settings, log, tmp_path
):
    url = getattr(silent, settings)
    word_is_kept(url, silent.proxy, way, log, str(tmp_path / "health"), LATE, {})


@pytest.fixture
def two(db_rows, tmp_path, database_url):
    """A project with two databases: ``default`` can go silent, ``aside`` is a file."""
    with own_database(database_url, tmp_path) as url:
        project = Two(tmp_path, url)
        with proxied(name_in(url)) as silent:
            project.environment["DATABASE_URL"] = silent.url
            yield project, silent.proxy
        project.end()
        project.default.close()


def wait_for_beat(two, alias, seconds):
    def beat():
        return two.ask(alias, "SELECT beat_at FROM dbqueue_worker")

    before = beat()
    wait_until(lambda: beat() != before, seconds)


@needs_a_server
def test_the_beats_on_the_other_database_go_on(two):
    two, proxy = two
    two.worker(**TIMING | {"DBQUEUE_WORKER_TIMEOUT": "16"})  # a silent one is given up after 12
    wait_until(lambda: len(two.living()) == 2)
    proxy.be(Way.SWALLOW)
    end = time.monotonic() + 16
    while time.monotonic() < end:
        wait_for_beat(two, "aside", VERY_LATE)
    proxy.be(Way.PASS)
    wait_for_beat(two, "default", 16 + VERY_LATE)


def work_goes_on(url, proxy, way, log, timing, seconds):
    """After so many seconds of silence; nothing is lost, and nothing runs twice."""
    Note.objects.bulk_create([Note(log=log, seconds=0.05) for _ in range(300)])
    with worker(url, "queueapp.Note", "--threads", "2", **timing):
        wait_for_lines(log, 20)
        proxy.be(way, seconds=5.0)
        end = time.monotonic() + seconds
        wait_until(lambda: time.monotonic() > end)
        count = len(lines(log))
        proxy.be(Way.PASS)
        healed = time.monotonic()
        wait_for_lines(log, count + 1)
        resumed_after = time.monotonic() - healed
        wait_until(lambda: not Note.objects.exclude(status=Status.DONE).exists())
    print(f"{way.name}: went on after {resumed_after:.1f} s")
    assert resumed_after < 3 + VERY_LATE
    assert len({line.split()[0] for line in lines(log)}) == len(lines(log)) == 300


@needs_a_server
@pytest.mark.usefixtures("db_rows")
def test_work_goes_on_soon_after_the_database_answers_again(silent, log):
    work_goes_on(silent.url, silent.proxy, Way.SWALLOW, log, TIMING, seconds=6)


@needs_a_server
@pytest.mark.nightly
@pytest.mark.usefixtures("db_rows")
@pytest.mark.parametrize("settings", ["url", "recommended_url"])
@pytest.mark.parametrize("way", SILENCES)
def test_so_it_does_by_default_after_any_silence(silent, way, settings, log):
    work_goes_on(getattr(silent, settings), silent.proxy, way, log, {}, seconds=15)
