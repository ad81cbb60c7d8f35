"""``dbqueue explain``: why a job is not running, in words."""

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext

from django_dbqueue.diagnose import REASONS, UnknownJob, explain
from django_dbqueue.exceptions import Bury, Retry
from django_dbqueue.fields import DbNow
from django_dbqueue.lifecycle import reap
from django_dbqueue.lifecycle.table import table_of
from django_dbqueue.models import Worker
from django_dbqueue.testing import virtual_clock
from tests.kit.bounds import limits
from tests.queueapp.models import ArchivedChore, Chore, Kept, Note

pytestmark = pytest.mark.usefixtures("db_rows")
UUID = "ab" * 16


@pytest.fixture(autouse=True)
def clock(db_rows):
    """It stands still, since what is said of times says how long ago they were."""
    with virtual_clock() as clock:
        yield clock


def said(job):
    found = explain(table_of(type(job), "default"), job.pk)
    return f"{found.state}: {' '.join(found.sentences)}"


def by_hand(job, **columns):
    """Written past the manager, which would refuse."""
    QuerySet(type(job)).filter(pk=job.pk).update(**columns)
    return job


def a_worker(**columns):
    serves = columns.pop("serves", ["queueapp.note"])
    return Worker.objects.create(uuid=UUID, host="web1", pid=7, serves=serves, **columns)


def test_a_ready_job_without_a_worker_says_how_to_start_one():
    words = said(Note.objects.create())
    assert words.startswith("ready: No living worker serves its queue.")
    assert "manage.py runworker queueapp.note" in words
    assert "It is the next one of its queue." in words


def test_what_is_before_it_is_counted_by_priority_and_age():
    Note.objects.create(priority=1)
    Note.objects.create()
    Note.objects.create(queue="other", priority=0)
    job = Note.objects.create()
    Note.objects.create()
    a_worker()
    assert "2 ready jobs of its queue are before it" in said(job)
    assert "A worker serves its queue: web1 7" in said(job)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"paused": True}, "is paused by a signal"),
        ({"drain_requested_at": DbNow(), "paused": True}, "was asked to drain"),
        ({"stop_requested_at": DbNow()}, "is stopping"),
        ({"beat_at": DbNow(plus=-60)}, "has not beaten for 1 min, and counts as dead"),
        ({"serves": ["queueapp.note:other"]}, "No living worker"),
    ],
)
def test_workers_that_will_not_take_it_say_why(columns, words):
    a_worker(**columns)
    text = said(Note.objects.create())
    assert words in text
    assert "No living worker serves its queue" in text


def test_a_paused_queue_says_until_when_and_why():
    job = Note.objects.create()
    Note.objects.pause(reason="the API is down")
    assert "is paused until somebody resumes it (the API is down)" in said(job)
    Note.objects.pause(seconds=60)
    assert "is paused until 20" in said(job)
    late = Note.objects.enqueue(delay=500).job
    assert "is paused until 20" in said(late)


def test_expiry_attempts_and_crashes_are_told():
    job = Note.objects.create(expires_at=DbNow(plus=3000))
    assert "It expires in 50 min" in said(job)
    assert "attempt 2 of 3 comes next".capitalize() in said(by_hand(job, attempts=1, crashes=2))
    assert "Its worker died with it twice" in said(job)
    assert "runs in a child apart" not in said(by_hand(job, crashes=0, losses=1))
    assert "Its whole worker was lost with it 2 times" in said(by_hand(job, losses=2))
    by_hand(job, losses=0)
    assert "It expired 50 s ago" in said(by_hand(job, expires_at=DbNow(plus=-50)))


def test_a_delayed_job_says_when_and_since_what_failed():
    assert "delayed: It becomes ready in 10 min, as was asked." in said(
        Note.objects.enqueue(delay=600).job
    )
    job = Note.objects.create()
    [held] = Note.objects.claim()
    held.fail(KeyError("secret address"))
    by_hand(job, retry_at=DbNow(plus=240))
    text = said(job)
    assert "It is retried in 4 min, since attempt 1 of 3 failed (KeyError)." in text
    assert "secret" not in text
    text = said(by_hand(job, retry_at=DbNow(plus=-30)))
    assert "It has been due for 30 s" in text
    assert "no worker and no reaper lives" in text
    assert "delayed for ever" in said(by_hand(job, retry_at=None))


def test_a_claimed_job_says_by_whom_and_until_when():
    job = Note.objects.create()
    [held] = Note.objects.claim(owner=f"{UUID}.1-1")
    assert "by a worker that is gone" in said(job)
    worker = a_worker()
    text = said(job)
    assert "Worker web1 7" in text
    assert "did not run yet" in text
    assert "Its claim ends in 1 min" in text or "Its claim ends in 60 s" in text
    runs = {"8": [{"job": f"queueapp.note {job.pk}", "seconds": 12}]}
    Worker.objects.filter(pk=worker.pk).update(running=runs)
    assert "At its last beat it ran for 12 s." in said(job)
    Worker.objects.filter(pk=worker.pk).update(beat_at=DbNow(plus=-8))
    assert "others take over" not in said(job)
    Worker.objects.filter(pk=worker.pk).update(beat_at=DbNow(plus=-20))
    assert "after 10 s others take over" in said(job)
    assert "Its claim ended 20 s ago" in said(by_hand(job, retry_at=DbNow(plus=-20)))
    assert "never ends" in said(by_hand(job, retry_at=None))
    held.complete()


def test_a_claim_of_a_server_of_tubes_is_that_of_a_worker():
    job = Note.objects.create()
    Note.objects.claim(owner=f"{UUID}.1")
    assert f"by {UUID}.1, which is no worker of ours" in said(job)
    worker = a_worker()
    text = said(job)
    assert "Worker web1 7" in text
    assert "did not run" not in text
    QuerySet(Worker).filter(pk=worker.pk).update(beat_at=DbNow(plus=-20))
    assert "Nobody lives to do it" in said(job)
    QuerySet(Worker).filter(pk=worker.pk).update(stopped_at=DbNow())
    assert "by a worker that is gone" in said(job)


def test_a_claim_of_ones_own_loop_is_told_apart():
    job = Note.objects.create()
    Note.objects.claim(owner="my loop")
    assert "by my loop, which is no worker of ours" in said(job)


def test_a_buried_job_says_why():
    job = Note.objects.create()
    Note.objects.filter(pk=job.pk).bury()
    assert " on request." in said(job)
    assert "puts it back to work (kick)" in said(job)
    for error, words in ((Bury("x"), "as it asked for itself"),):
        Note.objects.kick()
        Note.objects.claim()[0].fail(error)
        assert words in said(job)
    Note.objects.kick()
    for _ in range(3):
        by_hand(job, status=0, retry_at=None)
        Note.objects.claim()[0].fail(RuntimeError("x"))
    assert "3 of 3 attempts are used up, the last one by RuntimeError" in said(job)
    Note.objects.kick()
    for _ in range(3):
        Note.objects.claim(owner=f"{UUID}.1-1")
        reap.reap_owner(table_of(Note, "default"), f"{UUID}.", {str(job.pk): reap.Trace()})
    assert "its worker died with it 3 times" in said(job)


def test_a_done_job_says_when_and_what_comes_next():
    job = Kept.objects.create(created_at=DbNow(plus=-100))
    Kept.objects.claim()[0].complete()
    text = said(job)
    assert "done: It was completed a moment ago, " in text
    assert "2 min after it came" in text
    assert "into the archive" in text or "is deleted" in text
    expired = Note.objects.create(expires_at=DbNow(plus=-1))
    by_hand(expired, status=2, finished_at=DbNow())
    assert "finished without a run" in said(expired)
    assert "nobody wrote down since when" in said(by_hand(Note.objects.create(), status=2))


def test_an_archived_job_is_found_and_an_unknown_one_is_an_error():
    job = Kept.objects.create()
    Kept.objects.cancel()
    archive = "It is kept in the archive, queueapp.ArchivedKept."
    assert said(job) == f"cancelled: It was cancelled while it was ready. {archive}"
    table = table_of(Note, "default")
    for key in (10**9, "nonsense", 10**40):
        with pytest.raises(UnknownJob, match=r"queueapp\.note"):
            explain(table, key)


def test_what_a_hand_wrote_is_explained_too():
    job = Note.objects.create()
    assert "unknown: Its status, 7, means nothing" in said(by_hand(job, status=7))
    with connection.cursor() as cursor:
        cursor.execute("UPDATE queueapp_note SET status = 3, errors = '[1, \"x\"]', attempts = 1")
    assert said(job).startswith("delayed: ")


def test_a_queue_app_says_what_only_it_knows():
    job = Note.objects.create()
    REASONS["queueapp.note"] = lambda table, key: [f"{table.label} {key} waits for the moon."]
    try:
        assert said(job).endswith(f"queueapp.note {job.pk} waits for the moon.")
    finally:
        del REASONS["queueapp.note"]


def test_it_takes_a_few_queries_whatever_the_table_holds():
    def queries():
        with CaptureQueriesContext(connection) as captured:
            said(job)
        return len(captured)

    job = Note.objects.create()
    few = queries()
    Note.objects.bulk_create([Note() for _ in range(300)])
    assert queries() == few <= 6


def test_the_command_prints_it_for_people_and_programs():
    job = Note.objects.create()
    out = StringIO()
    call_command("dbqueue", "explain", "note", str(job.pk), stdout=out)
    assert out.getvalue().startswith(f"queueapp.note {job.pk}: ready\nNo living worker")
    out = StringIO()
    call_command("dbqueue", "explain", "queueapp.Note", str(job.pk), "--json", stdout=out)
    found = json.loads(out.getvalue())
    assert found.keys() == {"version", "state", "sentences", "until"}
    assert (found["version"], found["state"]) == (1, "ready")
    with pytest.raises(CommandError, match="there is no such job"):
        call_command("dbqueue", "explain", "note", str(job.pk + 1))
    with pytest.raises(CommandError, match="is no queue table; installed are"):
        call_command("dbqueue", "explain", "nonsense", "1")
    with pytest.raises(CommandError, match="did you mean queueapp"):
        call_command("dbqueue", "explain", "nots", "1")


def test_a_pause_tells_how_long_it_lasts_by_the_database():
    job = Note.objects.create()
    Note.objects.pause(seconds=3600)
    assert ", for 1 h more." in said(job)


def test_workers_in_trouble_say_so_and_many_silent_ones_are_counted():
    job = Note.objects.create()
    a_worker(trouble="the disk is full")
    assert "Worker web1 7 (abababab) is in trouble: the disk is full." in said(job)
    Worker.objects.all().delete()
    silent = {"host": "web1", "serves": ["queueapp.note"], "beat_at": DbNow(plus=-60)}
    for n in range(5):
        Worker.objects.create(uuid=f"{n}" * 32, pid=n, **silent)
    assert said(job).count("counts as dead") == 3
    assert "Nor does any of 2 more claim from it." in said(job)


def test_a_late_beat_says_when_its_worker_counts_as_dead():
    job = Note.objects.create()
    Note.objects.claim(owner=f"{UUID}.1-1")
    worker = a_worker()
    assert "counts as dead" not in said(job)
    Worker.objects.filter(pk=worker.pk).update(beat_at=DbNow(plus=-6))
    assert "it counts as dead." in said(job)


def test_a_claim_that_nobody_takes_back_says_so():
    job = Note.objects.create()
    Note.objects.claim(owner=f"{UUID}.1-1")
    nobody = "Nobody lives to do it"
    assert nobody in said(job)
    Worker.objects.create(uuid="cd" * 16, host="web2", pid=8, serves=["queueapp.kept"])
    assert nobody in said(job)  # it runs nothing itself, as a server of tubes
    Worker.objects.update(pool={"slots": 1})
    assert nobody not in said(job)
    Worker.objects.update(pool={})
    assert nobody in said(job)
    # A reaper of its own serves nothing.
    Worker.objects.update(serves=[])
    text = said(job)
    assert "a reaper takes it back" in text
    assert nobody not in text


def test_a_dedup_key_says_until_when_it_keeps_others_out_but_not_what_it_is():
    words = "enqueuing another with its dedup key yields this one."
    assert f"Until it is claimed, {words}" in said(Note.objects.create(dedup_key="s3cret"))
    assert f"Until it is done, {words}" in said(Kept.objects.create(dedup_key="s3cret"))
    late = Note.objects.enqueue(delay=60, dedup_key="other s3cret").job
    assert words in said(late)
    assert "s3cret" not in said(late)
    assert "dedup" not in said(Note.objects.create())


def test_a_job_that_asked_for_another_time_or_was_buried_by_hand_later_says_so():
    job = Note.objects.create()
    Note.objects.claim()[0].fail(Retry(300, "s3cret"))
    assert "in 5 min, as it asked for in attempt 1 of 3." in said(job)
    Note.objects.kick()
    Note.objects.claim()[0].fail(Bury("no"))
    Note.objects.kick()
    Note.objects.bury()
    assert " on request." in said(job)


def test_an_archived_job_says_how_it_ended():
    done, buried, expired = (Kept.objects.create() for _ in range(3))
    for job in Kept.objects.claim(limit=3):
        job.complete() if job.pk == done.pk else job.fail(Bury("no"))
    by_hand(expired, status=2, expires_at=DbNow(), finished_at=DbNow(), retry_at=None)
    Kept.objects.cancel()
    assert "done: It was completed a moment ago, " in said(done)
    assert "as it asked for itself. It was cancelled after that." in said(buried)
    assert said(expired).startswith("expired: It had expired when it was claimed")
    for job in (done, buried, expired):
        assert said(job).endswith("It is kept in the archive, queueapp.ArchivedKept.")


def test_a_bounded_queue_says_how_full_it_is():
    job = Note.objects.create()
    with limits(max_length=10, when_full="drop_oldest"):
        words = said(job)
    assert "Its queue holds 1 of at most 10 jobs that have not ended." in words
    assert "it may be dropped for a newer job" in words
    assert "at most" not in said(job)


def test_a_dropped_job_says_so_also_in_the_archive():
    with limits(max_length=1, when_full="drop_oldest"):
        job = Note.objects.create()
        Note.objects.create()
    assert "It was dropped a moment ago: its queue was full" in said(job)
    with limits("queueapp.chore", max_length=1, when_full="drop_oldest"):
        Chore.objects.create()
        Chore.objects.create()
    words = said(Chore(pk=ArchivedChore.objects.get().pk))
    assert "It was dropped" in words
    assert "cancelled" not in words
