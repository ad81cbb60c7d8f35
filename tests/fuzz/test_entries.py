"""Whatever a caller gives is kept and can be claimed, or is refused by name and not written."""

import warnings
from datetime import datetime

import pytest
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.utils import timezone
from hypothesis import strategies as st

from django_dbqueue.exceptions import Retry
from django_dbqueue.models import Queue
from django_dbqueue.states import Status
from tests.fuzz.tally import Tally, drawn
from tests.fuzz.values import ANY, NASTY
from tests.kit.jobs import claimed, lifecycle_of
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")

WAYS = {
    "create": Note.objects.create,
    "save": lambda **columns: Note(**columns).save(),
    "bulk_create": lambda **columns: Note.objects.bulk_create([Note(**columns)]),
    "enqueue": Note.objects.enqueue,
    "enqueue_many": lambda **columns: Note.objects.enqueue_many([columns]),
    "enqueue_many of all": lambda **columns: Note.objects.enqueue_many([{}], **columns),
}
COLUMNS = ["queue", "dedup_key", "priority", "time_to_run", "retry_at", "expires_at"]
DELAYS = ["enqueue", "enqueue_many of all"]
# What is refused must be one of these, and name what it refuses.
REFUSED = (ValueError, TypeError, ValidationError)


def refused(name, call):
    """Whether the call refused its value, by name."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of dates without a zone
            call()
    except REFUSED as error:
        if name not in str(error):
            raise RuntimeError(f"does not say {name!r}: {error!r:.200}") from error
        return True
    return False


def tried(tally, name, value, call, kept, untouched):
    tally.tried += 1
    try:
        if refused(name, call):
            tally.refused += 1
            assert untouched(), "something was written"
        else:
            kept()
    except Exception as error:
        tally.crashed(f"{name} = {value!r:.80}", error)
    finally:
        QuerySet(Note)._raw_delete("default")
        QuerySet(Queue)._raw_delete("default")


def no_rows():
    return not Note.objects.exists()


def enqueued(tally, way, column, value):
    def kept():
        row = Note.objects.get()
        if column != "delay":
            assert reads_as(getattr(row, column), value), getattr(row, column)
        Note.objects.delayed().kick()
        [job] = Note.objects.claim(queue=row.queue)
        assert job.pk == row.pk
        job.complete()

    call = lambda: WAYS[way](**{column: value})  # noqa: E731
    tried(tally, column, value, call, kept, no_rows)


def reads_as(found, value):
    if isinstance(value, datetime) and timezone.is_aware(value):
        return found == value
    if isinstance(found, datetime):
        return True  # said in another way, as a text or by the database's clock
    return found == value


PAIRS = [(way, column) for way in WAYS for column in COLUMNS]
PAIRS += [(way, "delay") for way in DELAYS]


def test_every_way_to_enqueue_keeps_or_refuses_what_it_is_given(full):
    tally = Tally("values to enqueue")
    for way, column in PAIRS if full else tally.random.sample(PAIRS, 2):
        for value in NASTY:
            enqueued(tally, way, column, value)
    least = 20_000 if full else 60
    examples = st.tuples(st.sampled_from(PAIRS), ANY)
    drawn(examples, least, lambda example: enqueued(tally, *example[0], value=example[1]))
    tally.end(least)


def of_a_claim(verb, option, **others):
    """A verb of the holder of a claim."""

    def attempt(tally, value):
        job = claimed()
        before = lifecycle_of(job)
        tried(
            tally,
            option,
            value,
            lambda: getattr(job, verb)(**others, **{option: value}),
            Note.objects.get,
            lambda: lifecycle_of(job) == before,
        )

    return attempt


def of_the_table(verb, option):
    def attempt(tally, value):
        Note.objects.create()
        tried(
            tally,
            option,
            value,
            lambda: getattr(Note.objects, verb)(**{option: value}),
            lambda: list(Note.objects.paused_queues()),
            lambda: Note.objects.get().status == Status.READY and not Queue.objects.exists(),
        )

    return attempt


def retry(tally, value):
    tried(tally, "delay", value, lambda: Retry(value), list, no_rows)


VERBS = {
    "claim limit": of_the_table("claim", "limit"),
    "claim queue": of_the_table("claim", "queue"),
    "claim owner": of_the_table("claim", "owner"),
    "pause queue": of_the_table("pause", "queue"),
    "pause seconds": of_the_table("pause", "seconds"),
    "pause reason": of_the_table("pause", "reason"),
    "resume queue": of_the_table("resume", "queue"),
    "release delay": of_a_claim("release", "delay"),
    "fail seconds": of_a_claim("fail", "seconds", error="no"),
    "fail error": of_a_claim("fail", "error"),
    "bury reason": of_a_claim("bury", "reason"),
    "retry delay": retry,
}


def test_every_verb_takes_or_refuses_what_it_is_given(full):
    tally = Tally("values for verbs")
    for name in VERBS if full else tally.random.sample(list(VERBS), 2):
        for value in NASTY:
            VERBS[name](tally, value)
    least = 5_000 if full else 60
    examples = st.tuples(st.sampled_from(list(VERBS)), ANY)
    drawn(examples, least, lambda example: VERBS[example[0]](tally, example[1]))
    tally.end(least)


def rows_given(tally, value):
    tried(tally, "row", value, lambda: Note.objects.enqueue_many([value]), no_rows, no_rows)


def test_rows_that_are_none_are_refused():
    tally = Tally("rows to enqueue")
    for value in NASTY:
        if not isinstance(value, dict):
            rows_given(tally, value)
    tally.end(50)


def test_lifecycle_columns_are_nobodys_to_give():
    tally = Tally("lifecycle columns")
    for column in ("status", "owner", "attempts", "crashes", "losses", "errors", "finished_at"):
        for value in NASTY[::3]:
            row = {column: value}
            call = lambda row=row: Note.objects.enqueue_many([row])  # noqa: E731
            tried(tally, column, value, call, no_rows, no_rows)
    assert tally.refused == tally.tried
    tally.end(100)
