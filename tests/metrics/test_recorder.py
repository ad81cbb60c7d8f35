"""What workers and reapers write for people to look at: minutes, troubles; and heeding a drain."""

import signal
import threading
import time
from dataclasses import replace

import pytest
from django.core.management import call_command
from django.db import connection, connections
from django.db.models import Sum

from django_dbqueue.lifecycle.claim_end import RetryDecision
from django_dbqueue.lifecycle.table import table_of
from django_dbqueue.metrics import recorder
from django_dbqueue.metrics.backlogs import (
    BacklogSampler,
    sample_backlogs,
    write_backlog,
)
from django_dbqueue.metrics.recorder import Recorder, add, this_minute
from django_dbqueue.metrics.roll_up import LOOK_BACK_MINUTES, fold, fold_quarter, prune
from django_dbqueue.metrics.time_series import history
from django_dbqueue.models import Minute, Worker
from django_dbqueue.models.minute import FINE, KEPT, QUARTER, RAN, WAITED
from django_dbqueue.monitor.worker_list import list_workers
from django_dbqueue.monitor.worker_requests import request_drain, request_resume
from django_dbqueue.states import Status
from django_dbqueue.testing import virtual_clock
from django_dbqueue.worker.health import ThroughputCounter
from django_dbqueue.worker.shared_memory import SharedMemory
from tests.kit.broken_rows import edit
from tests.kit.counting import count_all
from tests.kit.inline_worker import drain, work_off
from tests.kit.processes import wait_for_a_beat, worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Batch, Mailed, Note

pytestmark = pytest.mark.usefixtures("db_rows")
QUEUE = "default", "queueapp_note", "default"


@pytest.fixture(autouse=True)
def nothing_from_before():
    """Other tests run jobs in this process, too."""
    recorder._forget()


def sums(model, *names):
    rows = Minute.objects.filter(job_table=model._meta.db_table)
    found = rows.aggregate(**{name: Sum(name) for name in names})
    return [found[name] or 0 for name in names]


def test_what_a_worker_did_is_in_the_minutes_once_it_has_stopped(log):
    for model in (Note, Batch, Mailed):
        for _ in range(3):
            model.objects.create(log=log)
    Note.objects.create(action="fail")
    Note.objects.create(action="fail", queue="other")
    with virtual_clock() as clock:
        drain(clock, "queueapp.note", "queueapp.batch", "queueapp.mailed")
    for model in (Batch, Mailed):
        assert sums(model, "completed", "failed", "buried") == [3, 0, 0]
    assert sums(Note, "completed", "failed", "buried") == [3, 6, 2]
    assert sum(sums(Note, *RAN)) == 9
    assert sum(sums(Note, *WAITED)) >= 1
    other = Minute.objects.filter(queue="other").aggregate(n=Sum("failed"), b=Sum("buried"))
    assert other == {"n": 3, "b": 1}
    assert abs(Minute.objects.latest("minute").minute - time.time() / 60) < 2


def test_any_number_of_processes_add_to_the_same_minute():
    def write():
        for _ in range(5):
            add(QUEUE, {"completed": 2, "ran_0": 1})
        connections.close_all()

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums(Note, "completed", "ran_0") == [40, 20]


def test_what_cannot_be_written_is_kept_and_written_once():
    table, ours = table_of(Note, "default"), Recorder()
    ours.completed(table, [(Note(), 0.02)])
    good, recorder.add = recorder.add, refuse
    try:
        ours.write()
        ours.failed(table, "default", None, RetryDecision(Status.BURIED, 0, "buried"))
        ours.completed(table, [(Note(), 5)])
    finally:
        recorder.add = good
    assert not Minute.objects.exists()
    ours.write()
    ours.write()
    assert sums(Note, "completed", "failed", "buried", "ran_1", "ran_6") == [2, 1, 1, 1, 1]


def test_jobs_of_several_queues_that_end_together_are_counted_in_their_own():
    table, ours = table_of(Note, "default"), Recorder()
    done = [(Note(queue=name), seconds) for name, seconds in [("a", 0.02), ("b", 5), ("a", 5)]]
    ours.completed(table, done)
    ours.write()
    rows = Minute.objects.order_by("queue").values_list("queue", "completed", "ran_1", "ran_6")
    assert list(rows) == [("a", 2, 1, 1), ("b", 1, 0, 1)]


def refuse(key, columns, kinds=recorder.NO_KINDS):
    """The database's own refusal."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT nonsense FROM nowhere")


def test_queues_whose_names_a_hand_wrote_are_not_counted_and_harm_no_others():
    table, ours = table_of(Note, "default"), Recorder()
    for queue in ("default ", "", "\x1b[2J", "x" * 300, "default"):
        ours.completed(table, [(Note(queue=queue), 1)])
    ours.write()
    assert ours.due_in() == 60
    assert sums(Note, "completed") == [1]
    write_backlog("default", "queueapp_note", {" x": 3, "other": 4})
    assert Minute.objects.get(queue="other").backlog == 4


@pytest.mark.skipif(connection.vendor != "sqlite", reason="elsewhere a text is UTF-8")
def test_a_queue_whose_name_cannot_be_read_is_counted_as_people_read_it(log):
    for model in (Note, Batch):
        edit(model.objects.create(log=log), "queue = CAST(x'61ff' AS TEXT)")
    count_all(Batch)
    sample_backlogs([table_of(Batch, "default")])
    work_off("queueapp.note", "queueapp.batch")
    # A minute may have ended meanwhile.
    by = Minute.objects.values_list("job_table", "queue").order_by()
    found = by.annotate(completed=Sum("completed"), backlog=Sum("backlog"))
    assert sorted(found, key=str) == [
        ("queueapp_batch", "a\\xff", 1, 1),
        ("queueapp_note", "a\\xff", 1, None),
    ]


def test_old_minutes_are_pruned():
    minute = this_minute("default")
    for ago in (0, KEPT - 1, KEPT + 1, KEPT + 1000):
        Minute.objects.create(job_table="x.y", queue="default", minute=minute - ago)
    assert prune("default") == 2
    assert prune("default") == 0
    assert Minute.objects.count() == 2


def fine_minutes(first, count):
    """Of two queues: every minute, and only one within each quarter of an hour."""
    rows = [
        Minute(job_table="x.y", queue=queue, minute=first + n, completed=n, ran_3=2, backlog=90 - n)
        for queue, step in (("often", 1), ("seldom", QUARTER))
        for n in range(0, count, step)
    ]
    Minute.objects.bulk_create(rows)


def test_after_a_day_minutes_are_folded_and_the_charts_of_the_week_stay_as_they_were():
    end = (this_minute("default") - FINE) // QUARTER * QUARTER
    fine_minutes(end - 2 * QUARTER, 2 * QUARTER + 3)
    Minute.objects.filter(minute=end - 2, queue="often").update(backlog=None)
    before = [history("default", "x_y", queue, "week") for queue in ("often", "seldom")]
    assert fold("default") == 2
    assert fold("default") == 0
    found = Minute.objects.filter(minute__lt=end).order_by("queue", "minute")
    assert [(row.queue, end - row.minute, row.completed, row.backlog) for row in found] == [
        ("often", 30, sum(range(15)), 90),
        ("often", 15, sum(range(15, 30)), 75),
        ("seldom", 30, 0, 90),
        ("seldom", 15, 15, 75),
    ]
    assert Minute.objects.filter(minute__gte=end, queue="often").count() == 3
    after = [history("default", "x_y", queue, "week") for queue in ("often", "seldom")]
    for one, other in zip(before, after, strict=True):
        assert [replace(p, backlog=0) for p in one] == [replace(p, backlog=0) for p in other]


def test_minutes_are_folded_a_few_at_a_time_and_not_when_their_end_is_near():
    end = (this_minute("default") - FINE) // QUARTER * QUARTER
    fine_minutes(end - 5 * QUARTER, 5 * QUARTER)
    fine_minutes(end - LOOK_BACK_MINUTES - QUARTER, QUARTER)
    assert [fold("default") for _ in range(3)] == [4, 1, 0]
    assert Minute.objects.filter(queue="often").count() == 5 + QUARTER


def test_who_folds_minutes_that_another_has_just_folded_changes_nothing():
    end = (this_minute("default") - FINE) // QUARTER * QUARTER
    fine_minutes(end - QUARTER, QUARTER)
    fold_quarter("default", end - QUARTER)
    before = list(Minute.objects.order_by("queue").values("queue", "minute", "completed", "ran_3"))
    fold_quarter("default", end - QUARTER)
    again = list(Minute.objects.order_by("queue").values("queue", "minute", "completed", "ran_3"))
    assert before == again


def test_whoever_counts_the_backlogs_folds_and_prunes():
    end = (this_minute("default") - FINE) // QUARTER * QUARTER
    fine_minutes(end - QUARTER, QUARTER)
    Minute.objects.create(job_table="x.y", queue="old", minute=end - KEPT)
    sampler = BacklogSampler([table_of(Note, "default")])
    assert sampler.due_in() > 0
    sampler.write()
    assert sampler.due_in() > 0
    assert set(Minute.objects.values_list("queue", "minute")) == {
        ("often", end - QUARTER),
        ("seldom", end - QUARTER),
    }


def test_a_reaper_by_itself_writes_what_it_found(settings):
    settings.DBQUEUE = {"WORKER_TIMEOUT": 0.1, "BEAT_INTERVAL": 0.04}
    Note.objects.create(time_to_run=1)
    Note.objects.claim()
    wait_until(lambda: Note.objects.overdue().exists())
    call_command("runreaper", "--once")
    assert sums(Note, "failed") == [1]


def test_a_worker_drains_and_goes_on_as_its_row_says(database_url):
    with worker(database_url, "queueapp.Note", DBQUEUE_BEAT_INTERVAL="0.2") as process:
        wait_until(list_workers)
        [member] = request_drain(list_workers()[0].uuid)
        wait_until(lambda: list_workers()[0].state == "draining" and Worker.objects.get().paused)
        wait_for_a_beat(process)  # the look that was under way is over
        Note.objects.create()
        wait_for_a_beat(process)
        assert Note.objects.ready().count() == 1
        request_resume(member.uuid)
        wait_until(lambda: Note.objects.done().exists())
        wait_until(lambda: list_workers()[0].state == "alive")
        assert wait_until(lambda: Worker.objects.get().jobs_per_minute) == 1
        process.send(signal.SIGTERM)
        assert process.end() == 0
    assert sums(Note, "completed", "failed") == [1, 0]


def test_the_pace_is_that_of_the_last_minute(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    pace = ThroughputCounter()
    assert [pace.rate(5), pace.rate(30)] == [5, 30]
    now[0] += 59
    assert pace.rate(40) == 40
    now[0] += 30
    assert pace.rate(45) == 5


def test_a_board_tells_how_many_outcomes_are_stuck():
    shared = SharedMemory(threads=2)
    assert shared.stuck == 0
    shared.stuck = 12
    assert (shared.stuck, shared.paused, shared.jobs) == (12, False, 0)
