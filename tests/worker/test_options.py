"""What ``runworker`` is told reaches the worker: option > environment > settings > default."""

from pathlib import Path

import pytest
from django.core.management import CommandError

from django_dbqueue.backoff import Fixed, Listed
from django_dbqueue.management.commands.runworker import Command
from django_dbqueue.states import Status
from django_dbqueue.worker.queue_poller import QueueScheduler
from django_dbqueue.worker.startup import run_once
from tests.kit.jobs import fresh
from tests.kit.waiting import wait_until
from tests.queueapp.models import Fleeting, Note


def options(*args):
    """What the command makes of its arguments."""
    command = Command()
    given = command.create_parser("manage.py", "runworker").parse_args(args)
    return command.options(vars(given))


OPTIONS = {
    "processes": ("--processes=3", 3),
    "threads": ("--threads=4", 4),
    "coroutines": ("--coroutines=44", 44),
    "batch_size": ("--batch-size=5", 5),
    "batch_grows": ("--batch-size=5", False),
    "sleep": ("--sleep=6.5", 6.5),
    "shutdown_timeout": ("--shutdown-timeout=7.5", 7.5),
    "max_jobs": ("--max-jobs=8", 8),
    "max_time": ("--max-time=9", 9),
    "max_memory": ("--max-memory=10", 10),
    "probe_port": ("--probe-port=8080", 8080),
    "probe_host": ("--probe-host=::", "::"),
    "tries": ("--tries=11", 11),
    "backoff": ("--backoff=12", Fixed(12)),
}
MORE = {
    ("stop_when_empty", "--stop-when-empty"): 0,
    ("stop_when_empty", "--stop-when-empty-for=13"): 13,
    ("backoff", "--delay=1,2,3"): Listed((1, 2, 3)),
    ("sleep", "--sleep=0"): 0,
}
SETTINGS = {
    "PROCESSES": 2,
    "THREADS": 3,
    "COROUTINES": 33,
    "BATCH_SIZE": 4,
    "SLEEP": 5.5,
    "SHUTDOWN_TIMEOUT": 6.5,
    "PROBE_PORT": 8081,
    "REAP_INTERVAL": 7.5,
    "BEAT_INTERVAL": 8.5,
    "WORKER_TIMEOUT": 99.5,
}


@pytest.mark.parametrize(
    ("name", "arg", "value"),
    [
        *((name, arg, value) for name, (arg, value) in OPTIONS.items()),
        *((name, arg, value) for (name, arg), value in MORE.items()),
    ],
)
def test_an_option_reaches_the_worker(name, arg, value):
    assert getattr(options(arg), name) == value
    assert getattr(options(), name) != value


def test_a_health_file_reaches_the_worker_and_is_there_at_once(tmp_path):
    path = str(tmp_path / "health")
    assert options("--health-file", path).health_file == path
    assert Path(path).exists()
    assert options().health_file is None


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_reaches_the_worker_and_the_environment_wins_over_it(name, settings, monkeypatch):
    field = name.lower()
    assert getattr(options(), field) != SETTINGS[name]
    settings.DBQUEUE = {"WORKER_TIMEOUT": 50.0, name: SETTINGS[name]}
    assert getattr(options(), field) == SETTINGS[name]
    monkeypatch.setenv(f"DBQUEUE_{name}", str(type(SETTINGS[name])(SETTINGS[name] + 1)))
    assert getattr(options(), field) == SETTINGS[name] + 1
    if field in OPTIONS:
        arg, value = OPTIONS[field]
        assert getattr(options(arg), field) == value


def test_there_may_be_no_coroutines_and_no_more_than_ten_thousand():
    assert options("--coroutines=0").coroutines == 0
    assert options("--coroutines=10000").coroutines == 10_000
    with pytest.raises(
        CommandError,
        match=r"--coroutines: must be .* at least 0 and at most 10000, not",
    ):
        options("--coroutines=10001")


@pytest.mark.usefixtures("db_rows")
def test_an_idle_worker_looks_less_and_less_often_until_it_sleeps_as_long_as_it_was_told():
    lanes = QueueScheduler(options("queueapp.Note", "--sleep", "40"))
    [watch] = lanes.pollers
    waits = []
    for _ in range(60):
        watch.next_look = 0.0
        assert lanes.next() is None
        waits.append(lanes.wait())
    assert waits[0] < 1
    assert 20 < waits[-1] <= 40


@pytest.mark.usefixtures("db_rows")
def test_an_idle_worker_that_is_told_to_hardly_sleeps():
    lanes = QueueScheduler(options("queueapp.Note", "--sleep", "0.001"))
    for _ in range(60):
        lanes.pollers[0].next_look = 0.0
        lanes.next()
        assert lanes.wait() <= 0.001


def taken(*args, count):
    """The tables and queues that a worker with these arguments looks after: ``count``, or more."""
    lanes = QueueScheduler(options(*args))
    for model in (Note, Fleeting):
        for queue in ("q", "default"):
            model.objects.create(queue=queue)
    found = set()

    def look():
        # Where a look was slow, the next one for other queues is not at once.
        for watch, queue in filter(None, [lanes.next() for _ in range(8)]):
            found.add(f"{watch.served.model.__name__}:{queue}")
        return len(found) >= count

    wait_until(look)
    look()
    return found


BOTH = ("queueapp.Note", "queueapp.Fleeting")
EVERYTHING = {"Note:q", "Note:default", "Fleeting:q", "Fleeting:default"}


@pytest.mark.usefixtures("db_rows")
@pytest.mark.parametrize("tables", [BOTH, ()], ids=["two", "all"])
@pytest.mark.parametrize(
    ("left_out", "gone"),
    [
        ([], set()),
        (["queueapp.Note:q"], {"Note:q"}),
        (["queueapp.Fleeting:q"], {"Fleeting:q"}),
        (["queueapp.Note:q", "queueapp.Fleeting:default"], {"Note:q", "Fleeting:default"}),
        (["queueapp.Note:q", "queueapp.Note:default"], {"Note:q", "Note:default"}),
    ],
    ids=["nothing", "note", "fleeting", "of both", "both of one"],
)
def test_a_queue_that_is_left_out_of_one_table_is_served_in_others(tables, left_out, gone):
    args = [arg for one in left_out for arg in ("--except", one)]
    expected = EVERYTHING - gone
    assert taken(*tables, *args, count=len(expected)) == expected


@pytest.mark.usefixtures("db_rows")
def test_a_queue_that_is_named_is_the_only_one_of_its_table_alone():
    served = taken("queueapp.Note:q", "queueapp.Fleeting", count=3)
    assert served == {"Note:q", "Fleeting:q", "Fleeting:default"}


@pytest.mark.usefixtures("db_rows")
@pytest.mark.parametrize("args", [["queueapp.Note:q"], ["--except", "queueapp.Note:default"]])
def test_once_runs_no_job_of_a_queue_that_is_not_served(args):
    other = Note.objects.create()
    assert run_once(options(*args)) == 0
    mine = Note.objects.create(queue="q")
    assert run_once(options(*args)) == 1
    assert (fresh(other).status, fresh(mine).status) == (Status.READY, Status.DONE)
