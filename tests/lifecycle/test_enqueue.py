"""nothing -> ready or delayed, in the caller's transaction."""

from datetime import timedelta

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from django_dbqueue.lifecycle.promotion import promote
from django_dbqueue.states import Status
from tests.kit.jobs import claim_one, done, fresh, in_thread, table
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note, Uuid

pytestmark = pytest.mark.usefixtures("db_rows")

WAYS = {
    "create": Note.objects.create,
    "save": lambda **columns: Note(**columns).save(),
    "bulk_create": lambda **columns: Note.objects.bulk_create([Note(), Note(**columns)]),
    "enqueue": Note.objects.enqueue,
    "enqueue once": lambda **columns: Note.objects.enqueue(**{"dedup_key": "k"} | columns),
    "get_or_create": lambda **columns: Note.objects.get_or_create(text="x", defaults=columns),
    "enqueue_many": lambda **columns: Note.objects.enqueue_many([columns]),
}
each_way = pytest.mark.parametrize("enqueue", WAYS.values(), ids=WAYS.keys())
each_instance = pytest.mark.parametrize("enqueue", list(WAYS.values())[:-1], ids=list(WAYS)[:-1])


class Undo(Exception):
    pass


@each_way
def test_a_job_is_rolled_back_with_the_transaction(enqueue):
    def enqueue_and_undo():
        with transaction.atomic():
            enqueue()
            assert Note.objects.exists()
            raise Undo

    with pytest.raises(Undo):
        enqueue_and_undo()
    assert not Note.objects.exists()


@each_way
def test_a_job_is_committed_with_the_transaction(enqueue):
    with transaction.atomic():
        enqueue()
        assert not in_thread(Note.objects.exists)
    assert in_thread(Note.objects.exists)
    assert all(job.status == Status.READY for job in Note.objects.all())


@each_instance
def test_a_new_job_is_ready_whatever_it_says_of_itself(enqueue):
    lies = {"status": Status.DONE, "owner": "me", "attempts": 7, "crashes": 2}
    enqueue(**lies, finished_at=timezone.now(), dequeued_time=timezone.now(), errors=[{}])
    row = Note.objects.last()
    assert (row.status, row.owner, row.attempts, row.crashes) == (Status.READY, None, 0, 0)
    assert (row.finished_at, row.dequeued_time, row.errors) == (None, None, [])


@each_way
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("priority", -1),
        ("priority", 2**32),
        ("priority", "high"),
        ("priority", 1.5),
        ("time_to_run", 0),
        ("time_to_run", -5),
        ("time_to_run", 11 * 365 * 86400),
        ("queue", ""),
        ("queue", None),
        ("queue", " a"),
        ("queue", "a "),
        ("queue", "a\u00a0"),
        ("queue", "a\nb"),
        ("queue", "a\0b"),
        ("queue", "a\x7fb"),
        ("queue", "half \ud800 pair"),
        ("queue", "a\u202eb"),
        ("queue", "a\u2066b"),
        ("queue", "a\u2028b"),
        ("dedup_key", "a\u202eb"),
        ("queue", "x" * 201),
        ("queue", "é" * 101),
        ("queue", 5),
        ("dedup_key", ""),
        ("dedup_key", "a "),
        ("dedup_key", "x" * 201),
        ("expires_at", "tomorrow"),
        ("retry_at", "tomorrow"),
    ],
)
def test_what_is_out_of_bounds_is_refused_by_name_and_nothing_is_written(enqueue, column, value):
    with pytest.raises(ValidationError) as refused:
        enqueue(**{column: value})
    assert column in str(refused.value) or "tomorrow" in str(refused.value)
    assert not Note.objects.exists()


@each_way
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("priority", 0),
        ("priority", 2**32 - 1),
        ("time_to_run", 1),
        ("time_to_run", 10 * 365 * 86400),
        ("queue", "x" * 200),
        ("queue", "é" * 100),
        ("queue", "𝄞 with a space"),
        ("dedup_key", "漢" * 66),
    ],
)
def test_what_is_just_within_bounds_is_kept(enqueue, column, value):
    enqueue(**{column: value})
    assert getattr(Note.objects.order_by("pk").last(), column) == value


@each_way
@pytest.mark.parametrize("column", ["retry_at", "expires_at"])
def test_a_naive_datetime_is_refused_under_use_tz(enqueue, column):
    with pytest.raises(ValueError, match=column):
        enqueue(**{column: timezone.now().replace(tzinfo=None)})
    assert not Note.objects.exists()


@each_way
def test_a_job_with_a_retry_at_is_delayed(enqueue):
    due = timezone.now() + timedelta(hours=1)
    enqueue(retry_at=due)
    row = Note.objects.order_by("pk").last()
    assert (row.status, row.retry_at) == (Status.DELAYED, due)
    assert promote(table()) == 0


def test_names_are_compared_byte_by_byte():
    names = ["a", "A", "á", "a\u0301", "\uff41", "ß", "ss", "a-", "a b"]
    for name in names:
        Note.objects.enqueue(queue=name, dedup_key="same")
    assert Note.objects.count() == len(names)
    for name in names:
        assert claim_one(queue=name).queue == name
        assert Note.objects.claim(queue=name) == []
        assert Note.objects.filter(queue=name).count() == Note.objects.in_queue(name).count() == 1


def test_enqueue_gives_the_job_and_that_it_is_new():
    job, created = Note.objects.enqueue(text="new", priority=3)
    assert created
    assert (fresh(job).text, fresh(job).priority) == ("new", 3)


def test_a_delay_is_counted_by_the_database():
    job, _ = Note.objects.enqueue(delay=0.3)
    assert fresh(job).status == Status.DELAYED
    assert (job.retry_at - job.created_at).total_seconds() == pytest.approx(0.3, abs=0.05)
    wait_until(lambda: promote(table()))
    assert claim_one().pk == job.pk


@pytest.mark.parametrize("delay", [-1, -0.001, float("nan"), float("inf"), 11 * 365 * 86400])
def test_a_delay_that_means_nothing_is_refused(delay):
    with pytest.raises(ValidationError, match="delay"):
        Note.objects.enqueue(delay=delay)
    assert not Note.objects.exists()


@pytest.mark.parametrize("delay", [None, False, 0])
def test_no_delay_is_now(delay):
    Note.objects.enqueue(delay=delay)
    Note.objects.enqueue_many([{}], delay=delay)
    assert [job.status for job in Note.objects.all()] == [Status.READY] * 2


def test_the_longest_delay_is_told_in_full():
    with pytest.raises(ValidationError, match="between 0 and 315360000 seconds"):
        Note.objects.enqueue(delay=1e9)


@pytest.mark.parametrize("column", ["priority", "time_to_run", "delay"])
def test_a_number_too_long_to_be_printed_is_refused_by_name(column):
    with pytest.raises(ValidationError, match=f"{column} must be .* not a very long int"):
        Note.objects.enqueue(**{column: 10**5000})  # type: ignore[arg-type]


def test_delay_and_retry_at_exclude_each_other():
    with pytest.raises(ValidationError, match="delay"):
        Note.objects.enqueue(delay=1, retry_at=timezone.now())


def test_an_unknown_column_is_refused():
    with pytest.raises(TypeError, match="colour"):
        Note.objects.enqueue(colour="red")


def test_bulk_create_writes_all_or_nothing():
    with pytest.raises(ValidationError):
        Note.objects.bulk_create([Note(), Note(), Note(priority=-1)])
    assert not Note.objects.exists()


def test_bulk_create_makes_jobs_that_know_their_keys_and_times():
    jobs = Note.objects.bulk_create([Note(text=str(n)) for n in range(3)])
    again = Note.objects.order_by("pk")
    assert [row.text for row in again] == ["0", "1", "2"]
    assert [job.created_at for job in jobs] == [row.created_at for row in again]


def test_bulk_create_cannot_overwrite_a_lifecycle():
    job = done()
    copy = Note(pk=job.pk, text="copy")
    with pytest.raises(ValueError, match="status"):
        Note.objects.bulk_create([copy], update_conflicts=True, update_fields=["status"])
    with pytest.raises((ValueError, TypeError)):
        Note.objects.bulk_create([copy], None, False, True, ["status"])
    assert fresh(job).status == Status.DONE


@pytest.mark.parametrize("save", [lambda job: job.save(), lambda job: job.save(force_insert=True)])
def test_a_new_job_never_overwrites_a_row(save):
    job = done()
    with pytest.raises(IntegrityError), transaction.atomic():
        save(Note(pk=job.pk, text="an impostor"))
    assert (fresh(job).text, fresh(job).status) == ("", Status.DONE)


def test_update_fields_of_an_unread_row_leave_its_lifecycle_alone():
    job = done()
    Note(pk=job.pk, text="new").save(update_fields=["text"])
    assert (fresh(job).text, fresh(job).status) == ("new", Status.DONE)
    with pytest.raises(ValueError, match="status"):
        Note(pk=job.pk).save(update_fields=["status"])


def test_a_copy_of_a_job_is_a_new_job():
    job = fresh(done(text="copied"))
    original = job.pk
    job.pk, job._state.adding = None, True
    job.save()
    copy = fresh(job)
    assert copy.pk != original
    assert (copy.text, copy.status, copy.owner) == ("copied", Status.READY, None)


def test_a_table_with_another_kind_of_key_works():
    job, created = Uuid.objects.enqueue(dedup_key="once", text="x")
    assert created
    assert Uuid.objects.enqueue(dedup_key="once") == (job, False)
    found = claim_one(Uuid)
    assert (found.pk, found.text) == (job.pk, "x")
    found.complete()
    assert fresh(job).status == Status.DONE
