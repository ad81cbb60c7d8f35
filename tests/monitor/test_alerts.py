"""Banners: each appears when it is true, and goes when it is not."""

import pytest

from django_dbqueue.fields import DbNow
from django_dbqueue.models import Queue, Worker
from django_dbqueue.monitor.alerts import alerts
from django_dbqueue.states import Status
from tests.kit.bounds import limits
from tests.kit.jobs import aged, claimed, overwrite
from tests.kit.overview import NOTE, OVERVIEW, a_worker, look, minute, text_of
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")


def said():
    return " ".join(alert.text for alert in alerts(look()))


def test_nothing_is_wrong_with_an_idle_queue():
    Note.objects.enqueue(delay=3600)
    assert said() == ""


@pytest.mark.parametrize("delay", [0, 3600])
def test_a_queue_with_ready_or_due_jobs_needs_a_worker(delay):
    job, _ = Note.objects.enqueue(delay=delay)
    if delay:
        overwrite(job, retry_at=job.created_at)
    assert "no living worker serves it" in said()
    other = a_worker(serves=[f"{NOTE}:other", "queueapp.big"])
    assert "no living worker serves it" in said()
    worker = a_worker(drain_requested_at=DbNow())
    assert f"no worker claims from it now: {worker} (draining)" in said()
    Worker.objects.filter(pk=worker.pk).update(drain_requested_at=None)
    assert said() == ""
    Worker.objects.filter(pk=worker.pk).update(serves=[f"{NOTE}:default"])
    assert said() == ""
    Worker.objects.filter(pk__in=[worker.pk, other.pk]).sign_off("SIGTERM")
    assert "no living worker serves it" in said()


def test_claims_whose_time_is_over_need_somebody_who_takes_them_back():
    """Say those of a loop of one's own that has died."""
    job = claimed(Note, queue="slow")
    assert said() == ""
    overwrite(job, retry_at=DbNow(plus=-5))
    assert said() == ""
    overwrite(job, retry_at=DbNow(plus=-20))
    [alert] = alerts(look())
    assert alert.text == f"{NOTE}, queue slow: no living worker serves it."
    assert (alert.is_urgent, alert.kind, alert.state) == (True, "nobody", Status.CLAIMED)
    a_worker(serves=["dbqueue_beanstalk.tubejob"])  # a server, which looks after its tubes alone
    assert "no living worker serves it" in said()
    a_worker(serves=["queueapp.big"], pool={"slots": 1})  # whichever worker lives does
    assert said() == ""


def test_a_reaper_takes_back_claims_whose_time_is_over():
    overwrite(claimed(Note), retry_at=DbNow(plus=-20))
    a_worker(serves=[])
    assert said() == ""


def test_a_job_that_waits_too_long_is_told(settings):
    a_worker()
    job, _ = Note.objects.enqueue()
    assert said() == ""
    Note._base_manager.filter(pk=job.pk).update(created_at=DbNow(plus=-400))
    assert "the oldest ready job waits for 7 min" in said()
    settings.DBQUEUE = {"LATE_AFTER": 500}
    assert said() == ""


def test_a_queue_may_have_a_target_of_its_own(settings):
    a_worker()
    for name in ("slow", "quick"):
        aged(Note.objects.create(queue=name), 400)
    assert said().count("the oldest ready job waits for 7 min") == 2
    with limits(f"{NOTE}:slow", late_after=3600):
        assert "queue quick: the oldest ready job waits" in said()
        assert "queue slow" not in said()
        shown = {one.queue: one.late_after for one in look().queues}
        assert (shown["slow"], shown["quick"]) == (3600.0, 300.0)
    settings.DBQUEUE = {"LATE_AFTER": 500}
    with limits(late_after=10):
        assert said().count("the oldest ready job waits for 7 min") == 2


def test_workers_are_told_when_late_when_silent_and_when_in_trouble(settings):
    settings.DBQUEUE = {"WORKER_TIMEOUT": 1000.0}
    worker = a_worker()
    rows = Worker.objects.filter(pk=worker.pk)
    assert said() == ""
    rows.update(beat_at=DbNow(plus=-700))
    assert "is late: it has not beaten for" in said()
    assert not any(alert.is_urgent for alert in alerts(look()))
    rows.update(beat_at=DbNow(plus=-3600))
    assert f"Worker {worker} has not beaten for 1 h." in said()
    rows.update(beat_at=DbNow(plus=60), trouble="3 outcomes cannot be recorded: disk full")
    assert f"Worker {worker}: 3 outcomes cannot be recorded: disk full." in said()
    rows.sign_off("SIGTERM")
    assert said() == ""


def test_a_pause_is_told_with_its_reason_and_hides_what_it_explains():
    Note.objects.enqueue()
    Queue.objects.pause(Note._meta.db_table, "default", None, "tea")
    assert said().startswith(f"{NOTE}, queue default is paused until somebody resumes it: tea.")
    assert "no living worker" not in said()
    Queue.objects.pause(Note._meta.db_table, "default", 3600, "")
    assert "is paused until 20" in said()
    Queue.objects.resume(Note._meta.db_table, "default")
    assert "paused" not in said()


@pytest.mark.parametrize(("completed", "failed", "wrong"), [(9, 11, 1), (10, 10, 0), (8, 11, 0)])
def test_failures_are_told_from_more_than_half_of_twenty_attempts_on(completed, failed, wrong):
    minute(3, completed=completed, failed=failed)
    assert ("of the attempts of the last hour failed" in said()) == bool(wrong)


def test_the_page_has_them_with_roles(browser):
    Note.objects.enqueue()
    Queue.objects.pause("queueapp_big", "default", None, "tea")
    text = text_of(browser.get(OVERVIEW))
    urgent, _, calm = text.partition('role="alert"')[2].partition('role="status"')
    assert "no living worker serves it" in urgent
    assert "is paused" in calm
    assert "is paused" not in urgent


def test_a_lane_is_served_and_paused_with_its_queue():
    with limits(rate="5/s", rate_key="{text}"):
        Note.objects.create(text="smtp")
        a_worker(serves=[f"{NOTE}:default"])
        assert said() == ""
        Note.objects.pause("default")
        assert "queue default@smtp is paused until somebody resumes it, with default." in said()


def test_a_rate_is_named_where_jobs_are_late_that_may_wait_for_it():
    with limits(rate="5/s"):
        a_worker()
        overwrite(Note.objects.create(), created_at=DbNow(plus=-7200))
        assert "perhaps for its rate (5 a second)." in said()
    assert "rate" not in said()
