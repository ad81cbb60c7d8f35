"""The worker in a test's own process, and the clock that it moves: for users' tests and ours."""

from datetime import timedelta

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError
from django.db import ProgrammingError, connection, models, transaction
from django.db.models.functions import Now

from django_dbqueue.beanstalk.models import TubeJob
from django_dbqueue.lifecycle import held, low_instants, low_water
from django_dbqueue.models import Minute, Worker
from django_dbqueue.monitor.report import known_queues
from django_dbqueue.signals import worker_started, worker_stopped
from django_dbqueue.states import Status
from django_dbqueue.testing import InlineWorker, virtual_clock
from django_dbqueue.testing.inline import OF_PROCESSES, StillWaiting
from tests.kit.inline_worker import work_off
from tests.kit.jobs import fresh, in_thread, overwrite, table
from tests.kit.processes import lines
from tests.queueapp.models import Fleeting, Kept, Note

pytestmark = pytest.mark.usefixtures("db_rows")


def test_it_runs_all_that_is_ready_and_says_how_many(log):
    Note.objects.bulk_create([Note(log=log) for _ in range(250)])
    Fleeting.objects.create()
    with InlineWorker("queueapp.Note", "queueapp.Fleeting") as worker:
        assert worker.run() == 251
        assert worker.run() == 0
    assert Note.objects.done().count() == 250
    assert Fleeting.objects.count() == 0


def test_jobs_that_take_longer_than_a_worker_may_be_silent_are_all_run(settings):
    settings.DBQUEUE = {"BEAT_INTERVAL": 0.05, "WORKER_TIMEOUT": 0.2}
    Note.objects.bulk_create([Note(seconds=0.3) for _ in range(3)])
    with InlineWorker("queueapp.Note") as worker:
        assert worker.run() == 3


def test_what_is_delayed_waits_until_the_clock_is_moved():
    with virtual_clock() as clock, InlineWorker("queueapp.Note", clock=clock) as worker:
        job = Note.objects.enqueue(delay=3600).job
        assert worker.run() == 0
        clock.move(3599)
        assert worker.run() == 0
        clock.move(1)
        assert worker.run() == 1
        # SQLite's clock ticks in milliseconds.
        assert abs((fresh(job).finished_at - clock.now).total_seconds()) < 0.001


@pytest.mark.parametrize("verb", ["run", "drain"])
def test_of_very_many_jobs_that_are_due_at_once_none_is_left(verb):
    with virtual_clock() as clock, InlineWorker("queueapp.Note", clock=clock) as worker:
        due, rows = clock.now + timedelta(hours=1), models.QuerySet[Note](Note)
        delayed = [Note(status=Status.DELAYED, retry_at=due) for _ in range(3 * held.CHUNK + 1)]
        rows.bulk_create(delayed)
        if verb == "run":
            clock.move(3600)
        assert getattr(worker, verb)() == 3 * held.CHUNK + 1


def test_what_is_due_at_the_instant_at_which_the_clock_stands_runs():
    for _ in range(12):
        with virtual_clock() as clock, InlineWorker("queueapp.Note", clock=clock) as worker:
            overwrite(Note.objects.enqueue(delay=3600).job, retry_at=clock.now)
            assert worker.run() == 1


def test_a_job_whose_time_is_set_back_with_the_clock_runs_however_slow_looks_are(monkeypatch):
    monkeypatch.setattr(low_water, "CHEAP", -1.0)
    monkeypatch.setattr(low_water, "TRIPS", 0.0)
    monkeypatch.setattr(low_instants, "SHARE", 1e9)
    with virtual_clock() as clock, InlineWorker("queueapp.Note", clock=clock) as worker:
        job = Note.objects.enqueue(delay=3600).job
        for _ in range(5):
            assert worker.run() == 0
        clock.move(-7200)
        overwrite(job, retry_at=clock.now)
        assert worker.run() == 1


def test_djangos_now_is_set_on_postgresql_alone():
    Note.objects.create()
    with virtual_clock() as clock:
        clock.move(3600)
        now = Note.objects.annotate(now=Now()).values_list("now", flat=True).get()
    assert (now == clock.now) is (connection.vendor == "postgresql")


def test_the_clock_of_a_block_is_off_after_it_though_the_first_worker_began_within():
    def on_a_new_connection():
        with virtual_clock() as clock, InlineWorker("queueapp.Note", clock=clock) as worker:
            worker.run()
            clock.move(3600)
        due = Note.objects.enqueue(delay=1800).job
        assert fresh(due).retry_at < clock.now

    in_thread(on_a_new_connection)


def test_drain_moves_the_clock_to_each_retry_until_nothing_waits():
    with virtual_clock() as clock, InlineWorker("queueapp.Note", clock=clock) as worker:
        failing = Note.objects.create(action="fail")
        later = Note.objects.enqueue(delay=86_400).job
        began = clock.now
        assert worker.drain() == 4
    assert (fresh(failing).status, len(fresh(failing).errors)) == (Status.BURIED, 3)
    assert fresh(later).status == Status.DONE
    assert 86_400 <= (clock.now - began).total_seconds() < 86_401


def test_drain_ends_with_an_error_where_jobs_are_delayed_for_too_long():
    with virtual_clock() as clock, InlineWorker("queueapp.Note", clock=clock) as worker:
        Note.objects.enqueue(delay=7200)
        with pytest.raises(StillWaiting, match="beyond 3600 s"):
            worker.drain(within=3600)


@pytest.mark.parametrize(
    "arguments", [["queueapp.Note:default"], ["queueapp.Note", "--except=queueapp.Note:oth*"]]
)
def test_drain_waits_for_no_job_of_a_queue_that_it_does_not_serve(arguments):
    day = 86_400
    others = [Note.objects.enqueue(queue="other", delay=delay).job for delay in (60, 60 * day)]
    Note.objects.enqueue(delay=120)
    with virtual_clock() as clock, InlineWorker(*arguments, clock=clock) as worker:
        began = clock.now
        assert worker.drain(within=30 * day) == 1
        assert (clock.now - began).total_seconds() == pytest.approx(120, abs=1)
    assert [fresh(other).status for other in others] == [Status.READY, Status.DELAYED]


def test_drain_waits_for_no_job_of_a_tube_that_no_function_here_handles():
    TubeJob.objects.enqueue(queue="a-client-s", delay=60 * 86_400)
    with virtual_clock() as clock, InlineWorker("dbqueue_beanstalk.tubejob", clock=clock) as worker:
        began = clock.now
        assert worker.drain(within=30 * 86_400) == 0
        assert clock.now == began


def test_drain_without_a_clock_says_what_it_needs():
    with InlineWorker("queueapp.Note") as worker, pytest.raises(ValueError, match="clock=clock"):
        worker.drain()


def test_it_gives_back_the_claims_of_a_worker_that_fell_silent_and_of_no_other():
    with virtual_clock() as clock:
        job = Note.objects.create()
        other = InlineWorker("queueapp.Note")
        other.beat()
        other.consumer.claimer.scheduler.look_now()
        assert other.claim()
        with InlineWorker("queueapp.Note") as worker:
            clock.move(9)
            assert worker.run() == 0
            assert fresh(job).status == Status.CLAIMED
            clock.move(2)
            assert worker.run() == 1
        other.consumer.close()
    assert fresh(job).status == Status.DONE


def test_it_archives_what_is_done_as_long_as_the_policy_says():
    with virtual_clock() as clock, InlineWorker("queueapp.Kept") as worker:
        Kept.objects.create()
        assert worker.run() == 1
        clock.move(Kept.Policy.archive_after)
        worker.run()
    archive = Kept._meta.apps.get_model(Kept.Policy.archive)
    assert (Kept.objects.count(), archive.objects.count()) == (0, 1)


def test_it_is_told_apart_from_other_workers_by_its_row_and_signs_off():
    with InlineWorker("queueapp.Note") as worker:
        worker.run()
        assert Worker.objects.get(stopped_at=None).uuid == worker.uuid
    assert Worker.objects.get().stop_reason == "the test is over"


def test_what_it_has_claimed_and_not_run_is_given_back_at_the_end():
    Note.objects.bulk_create([Note() for _ in range(5)])
    with InlineWorker("queueapp.Note") as worker:
        worker.beat()
        worker.consumer.claimer.scheduler.look_now()
        worker.claim()
        assert Note.objects.claimed().count() == 5
    assert Note.objects.ready().filter(attempts=0).count() == 5


@pytest.mark.each_database
def test_what_it_could_not_give_back_itself_is_given_back_at_the_end():
    """A real worker's supervisor does this for a child that is gone."""
    faults = [ProgrammingError("for the test")]

    def refuse_once(execute, sql, *rest):
        if faults and "attempts - 1" in sql:
            raise faults.pop()
        return execute(sql, *rest)

    Note.objects.create()
    worker = InlineWorker("queueapp.Note")
    worker.beat()
    worker.consumer.claimer.scheduler.look_now()
    worker.claim()
    assert Note.objects.claimed().count() == 1
    with connection.execute_wrapper(refuse_once):
        worker.close()
    assert faults == []
    assert Note.objects.ready().filter(attempts=0).count() == 1


def test_options_of_runworker_hold_here_too():
    Note.objects.bulk_create([Note(queue=name) for name in ("red", "red", "blue")])
    with InlineWorker("queueapp.Note", "--except", "queueapp.Note:blue", "--max-jobs", "1") as one:
        assert one.run() == 1
    with InlineWorker("queueapp.Note:blue", "--once") as one:
        assert one.run() == 1
        assert one.run() == 0
    assert [job.queue for job in Note.objects.ready()] == ["red"]


@pytest.mark.parametrize("name", OF_PROCESSES)
def test_what_needs_a_process_is_refused_by_name(name, tmp_path):
    option = f"--{name.replace('_', '-')}"
    own = {"balance": ["auto"], "balance_by": ["size"], "health_file": [str(tmp_path / "health")]}
    values = (own | {"reload": []}).get(name, ["2"])
    with pytest.raises(ValueError, match=f"{option} needs a process"):
        InlineWorker(option, *values)


def test_what_runworker_refuses_is_refused_here_too():
    with pytest.raises(CommandError, match="is no queue table"):
        InlineWorker("queueapp.Nobody")
    with pytest.raises(CommandError, match="unrecognized arguments"):
        InlineWorker("--unknown")


def test_inside_atomic_it_says_what_to_use_instead():
    with InlineWorker("queueapp.Note") as worker:
        with pytest.raises(ImproperlyConfigured, match="TransactionTestCase"), transaction.atomic():
            worker.run()
        assert worker.run() == 0


def test_projects_hear_that_it_starts_and_stops():
    heard = []

    def hear(signal, **_):
        heard.append(signal)

    for signal in (worker_started, worker_stopped):
        signal.connect(hear)
    try:
        with InlineWorker("queueapp.Note"):
            assert heard == [worker_started]
    finally:
        for signal in (worker_started, worker_stopped):
            signal.disconnect(hear)
    assert heard == [worker_started, worker_stopped]


def test_a_job_that_fails_leaves_its_traceback_and_a_log_line(log):
    job = Note.objects.create(text="seven", action="fail", log=log)
    said = work_off("queueapp.Note")
    assert "note seven does not work; attempt 1 of 3, retried in 0.2 s" in said
    assert "do_fail" in fresh(job).errors[0]["traceback"]
    assert len(lines(log)) == 1


def test_a_name_that_cannot_be_decoded_is_counted_as_it_is_shown():
    if connection.vendor != "sqlite":
        pytest.skip("columns hold only text there")
    Note.objects.create()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE queueapp_note SET queue = CAST(x'61ff' AS TEXT)")
    work_off("queueapp.Note")
    assert [type(name) for name in Minute.objects.values_list("queue", flat=True)] == [str]
    assert known_queues(table(Note)) == ["a\\xff", "default"]
