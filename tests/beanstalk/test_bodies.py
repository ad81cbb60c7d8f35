"""What Django may enqueue for a tube, and for how long it is run: a body that is none is refused
by name."""

import pytest
from django.core.exceptions import ValidationError
from django.db import transaction

from django_dbqueue.beanstalk import commands, models
from django_dbqueue.beanstalk.models import TubeJob
from django_dbqueue.lifecycle.policy import MAX_SECONDS
from tests.kit.beanstalk_desk import Desk

pytestmark = pytest.mark.usefixtures("db_rows")
BYTES = b"\x00\xfforder 7"


def enqueue(**columns):
    TubeJob.objects.enqueue(**columns)


def enqueue_once(**columns):
    TubeJob.objects.enqueue(dedup_key="one", **columns)


def create(**columns):
    TubeJob.objects.create(**columns)


def bulk_create(**columns):
    TubeJob.objects.bulk_create([TubeJob(body=b"well"), TubeJob(**columns)])


def enqueue_many(**columns):
    TubeJob.objects.enqueue_many([{"body": b"well", "ttr": 1}, {"body": b"", "ttr": 1, **columns}])


WAYS = [enqueue, enqueue_once, create, bulk_create, enqueue_many]


def problem(way, **columns):
    """Within a transaction of the caller's, which goes on."""
    before = TubeJob.objects.count()
    with transaction.atomic():
        with pytest.raises(ValidationError) as refused:
            way(**columns)
        assert TubeJob.objects.count() == before
    [(name, [message])] = refused.value.message_dict.items()
    assert [name] == list(columns)
    return message


@pytest.mark.parametrize("way", WAYS)
def test_a_body_that_is_not_bytes_is_refused_by_name(way):
    assert problem(way, body="order 7") == "body must be bytes, not str 'order 7': encode it"
    assert problem(way, body=None) == "body must be bytes, not NoneType None"
    assert problem(way, body={"order": 7}) == "body must be bytes, not dict {'order': 7}"


@pytest.mark.parametrize("way", WAYS)
def test_a_body_that_is_too_large_is_refused_by_name(way, monkeypatch):
    monkeypatch.setattr(models, "JOB_SIZE_MAX", 4)
    assert problem(way, body=b"12345") == "body has 5 bytes; the limit is 4"
    way(body=b"1234")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ttr", [0, -1, 2**32, "60", None])
def test_a_ttr_that_no_client_may_give_is_refused_by_name(way, ttr):
    limits = "ttr must be a whole number of seconds between 1 and 4294967295, not "
    assert problem(way, ttr=ttr) == f"{limits}{ttr!r}"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_bytes_will_do(way, kind):
    way(body=kind(BYTES))
    assert BYTES in [bytes(job.body) for job in TubeJob.objects.all()]


def told(desk, client, key):
    """What its statistics say of its time, and for how long its row is claimed."""
    answer = desk.ask(client, commands.StatsJob(key)).decode()
    stats = dict(line.split(": ") for line in answer.splitlines() if ": " in line)
    row = TubeJob.objects.get(pk=key)
    lasts = round((row.retry_at - row.dequeued_time).total_seconds())
    return int(stats["ttr"]), int(stats["time-left"]), lasts


def reserved_last(desk, client):
    """The key of the job that comes last."""
    keys = [desk.reserve(client) for _ in range(TubeJob.objects.ready().count())]
    return max(keys)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ttr", [60, 3600])
def test_what_django_enqueues_is_a_client_s_for_its_ttr(way, ttr):
    way(body=b"x", ttr=ttr)
    desk = Desk()
    client = desk.client()
    key = reserved_last(desk, client)
    told_ttr, left, lasts = told(desk, client, key)
    assert (told_ttr, lasts) == (ttr, ttr + 5)
    assert ttr - 10 < left <= ttr
    assert desk.ask(client, commands.Touch(key)) == b"TOUCHED\r\n"
    assert told(desk, client, key)[1] > ttr - 10


@pytest.mark.parametrize("way", WAYS)
def test_a_worker_may_run_it_for_its_ttr_unless_it_is_given_another_time(way):
    way(body=b"x", ttr=3600)
    assert TubeJob.objects.latest("pk").time_to_run == 3600
    TubeJob.objects.all().delete()
    way(body=b"x", ttr=2**32 - 1)
    assert TubeJob.objects.latest("pk").time_to_run == MAX_SECONDS
    TubeJob.objects.all().delete()
    way(body=b"x", ttr=3600, time_to_run=30)
    assert TubeJob.objects.latest("pk").time_to_run == 30


def test_a_ttr_that_all_of_many_have_is_theirs():
    TubeJob.objects.enqueue_many([{"body": b"well"}, {"body": b""}], ttr=3600)
    assert [job.time_to_run for job in TubeJob.objects.all()] == [3600, 3600]


def many(**columns):
    TubeJob.objects.enqueue_many([{"body": b"well", **columns}, {"body": b"", **columns}])


def replace(**columns):
    TubeJob.objects.enqueue(dedup_key="one", on_duplicate="replace", **columns)


def add(**columns):
    TubeJob(**columns).save()


@pytest.mark.parametrize("way", [enqueue, enqueue_once, create, bulk_create, many, replace, add])
@pytest.mark.parametrize("columns", [{}, {"time_to_run": None}])
def test_a_job_that_is_given_no_ttr_is_run_for_the_usual_one(way, columns):
    way(**columns)
    assert {(job.ttr, job.time_to_run) for job in TubeJob.objects.all()} == {(300, 300)}


def test_a_ttr_that_replaces_another_counts():
    TubeJob.objects.enqueue(dedup_key="one", ttr=60, body=b"1")
    TubeJob.objects.enqueue(dedup_key="one", ttr=3600, body=b"2", on_duplicate="replace")
    job = TubeJob.objects.get()
    assert (bytes(job.body), job.ttr, job.time_to_run) == (b"2", 3600, 3600)
    TubeJob.objects.enqueue(dedup_key="one", body=b"3", on_duplicate="replace")
    assert TubeJob.objects.get().time_to_run == 3600
    replace(time_to_run=None, body=b"4")
    assert TubeJob.objects.get().time_to_run == 3600


@pytest.mark.parametrize("seconds", [30, 3600])
def test_a_time_that_an_operator_gives_is_a_client_s_too(seconds):
    desk = Desk()
    client = desk.client()
    key = desk.put(client, ttr=60, delay=600)
    assert TubeJob.objects.all().kick(time_to_run=seconds).changed == 1
    assert desk.reserve(client) == key
    ttr, left, lasts = told(desk, client, key)
    assert (ttr, lasts) == (seconds, seconds + 5)
    assert seconds - 10 < left <= seconds
    assert desk.broker.state.holds[key].ttr == seconds
