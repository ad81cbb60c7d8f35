"""What Django may enqueue for a tube: a body that is none is refused by name."""

import pytest
from django.core.exceptions import ValidationError
from django.db import transaction

from django_dbqueue.beanstalk import models
from django_dbqueue.beanstalk.models import TubeJob

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
