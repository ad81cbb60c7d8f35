"""What is around the run of a job: whether it may start, until when it may run, what it leaves."""

import pickle
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from django_dbqueue.lifecycle.claim import claim
from django_dbqueue.models import Minute
from django_dbqueue.states import Status
from django_dbqueue.testing import InlineWorker
from django_dbqueue.worker.options import Options
from django_dbqueue.worker.served import parse_served
from tests.kit.inline_worker import logged
from tests.kit.jobs import fresh, row_locked, start, steal, waiting_for_locks
from tests.queueapp.models import Batch, Note

pytestmark = pytest.mark.usefixtures("db_rows")


@pytest.fixture
def worker():
    with InlineWorker("queueapp.Note", "queueapp.Batch") as worker:
        worker.beat()
        yield worker


@pytest.fixture
def on_run(monkeypatch):
    """Let the jobs do this; the first of a batch does it for all."""

    def on_run(do):
        monkeypatch.setattr(Note, "run", do)
        monkeypatch.setattr(Batch, "run_batch", lambda jobs: do(jobs[0]))

    return on_run


def next_item(worker):
    worker.consumer.claimer.scheduler.look_now()
    worker.claim()
    return worker.consumer.buffer.get()


# --- whether it may start -------------------------------------------------------------------------


@pytest.mark.parametrize("by_gap", [True, False], ids=["a gap", "waiting"])
def test_what_another_has_by_now_is_not_started(worker, by_gap):
    job = Note.objects.create()
    item = next_item(worker)
    make_late(item, by_gap)
    steal(job)
    worker.take(item)
    worker.record()
    assert (fresh(job).owner, fresh(job).status) == ("another.1", Status.CLAIMED)
    assert worker.shared.jobs == 0


@pytest.mark.parametrize("by_gap", [True, False], ids=["a gap", "waiting"])
def test_what_another_may_have_by_now_is_touched_and_started(worker, by_gap):
    job = Note.objects.create()
    item = next_item(worker)
    make_late(item, by_gap)
    worker.take(item)
    worker.record()
    assert fresh(job).status == Status.DONE


@pytest.mark.skipif(connection.vendor == "sqlite", reason="its locks are the whole database's")
def test_what_waits_for_somebody_s_lock_is_not_started_and_holds_its_thread_for_seconds(worker):
    job = Note.objects.create()
    item = next_item(worker)
    make_late(item, by_gap=True)
    with row_locked(job):
        start(lambda: worker.consumer.runners[0].take(item)).result(15)
        assert not waiting_for_locks()
    assert list(worker.consumer.buffer.unstarted) == [item]
    assert worker.shared.jobs == 0


def make_late(item, by_gap):
    """Beats were missing since the claim, or a slow job was before it."""
    if by_gap:
        item.epoch -= 1
    else:
        item.claimed_at -= 60


def test_an_expired_job_of_a_batch_is_left_out(worker, on_run):
    ran = []
    on_run(lambda job: ran.append(job.pk))
    expired = Batch.objects.create(expires_at=timezone.now() - timedelta(seconds=60))
    good = Batch.objects.create()
    worker.run()
    assert ran == [good.pk]
    assert (fresh(expired).state, fresh(good).state) == ("expired", "done")


# --- until when it may run ------------------------------------------------------------------------


def test_a_jobs_own_time_to_run_goes_before_that_of_its_table(worker, on_run):
    seen = []
    on_run(lambda job: seen.extend(worker.shared.running()))
    Note.objects.create(time_to_run=5)
    Note.objects.create()
    worker.run()
    assert [round(one.deadline - one.started_at) for one in seen] == [5, 60]


def test_a_batch_has_the_shortest_of_its_times_to_run(worker, on_run):
    seen = []
    on_run(lambda job: seen.extend(worker.shared.running()))
    for seconds in (50, 5, None):
        Batch.objects.create(time_to_run=seconds)
    worker.run()
    assert [round(one.deadline - one.started_at) for one in seen] == [5, 5, 5]
    assert worker.shared.jobs == 3


def test_a_touch_gives_a_job_all_of_its_time_again(worker, on_run):
    deadlines = []

    def run(job):
        for _ in range(2):
            deadlines.extend(one.deadline for one in worker.shared.running())
            job.touch()

    on_run(run)
    Note.objects.create()
    worker.run()
    assert deadlines[0] < deadlines[1]


def test_a_touch_gives_a_job_the_time_that_its_worker_was_told():
    Note.objects.create()
    told = Options(served=parse_served(["queueapp.Note"]), timeout=5000)
    [job] = claim(told.table(Note, "default"), "default", 1, "w.1")
    job.touch()
    assert (fresh(job).retry_at - timezone.now()).total_seconds() > 4900


def test_a_job_that_has_ended_is_not_stopped_for_its_time(worker):
    Note.objects.create(action="fail")
    worker.run()
    assert worker.shared.running() == []


# --- what it leaves -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "state"), [("--tries=1", "buried"), ("--backoff=5000", "delayed"), ("", "delayed")]
)
def test_a_job_that_fails_by_its_own_code_is_judged_as_its_worker_was_told(on_run, told, state):
    on_run(lambda job: job.fail("it does not work"))
    job = Note.objects.create()
    with InlineWorker("queueapp.Note", *filter(None, [told])) as worker:
        worker.run()
    failed = fresh(job)
    assert failed.state == state
    if state == "delayed":
        left = (failed.retry_at - timezone.now()).total_seconds()
        assert (left > 4000) == (told == "--backoff=5000")


def test_a_copy_of_a_job_travels_without_what_its_worker_was_told():
    Note.objects.create()
    with InlineWorker("queueapp.Note", "--tries=1") as worker:
        worker.beat()
        [job] = next_item(worker).jobs
        assert job.claim_policy.max_attempts == 1
        assert pickle.loads(pickle.dumps(job)).claim_policy is None


def test_no_job_begins_in_the_transaction_of_the_one_before(worker, on_run):
    begun = []

    def run(job):
        begun.append(connection.get_autocommit())
        transaction.set_autocommit(False)

    on_run(run)
    jobs = [Note.objects.create() for _ in range(2)]
    worker.run()
    assert begun == [True, True]
    assert [fresh(job).status for job in jobs] == [Status.DONE, Status.DONE]


def test_a_completion_that_comes_too_late_is_told_and_counted_as_none(worker):
    jobs = [Note.objects.create() for _ in range(2)]
    worker.consumer.claimer.scheduler.look_now()
    worker.claim()
    steal(jobs[0])
    while len(worker.consumer.buffer):
        worker.take(worker.consumer.buffer.get())
    with logged() as log:
        worker.record()
    assert f"note {jobs[0].pk}: ClaimLost" in log
    assert f"note {jobs[1].pk}: ClaimLost" not in log
    worker.sign_off()
    assert sum(Minute.objects.values_list("completed", flat=True)) == 1
