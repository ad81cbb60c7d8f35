"""Jobs whose foreign key names a row that is gone."""

import pytest
from django.db import connection
from django.db.models import QuerySet
from django.db.utils import OperationalError

from django_dbqueue.exceptions import Bury
from django_dbqueue.states import Status
from django_dbqueue.worker.runner import explained
from tests.kit.inline_worker import work_off
from tests.kit.jobs import claimed, fresh
from tests.queueapp.models import Friend, Gallery, Note, Person, Portrait

pytestmark = pytest.mark.usefixtures("db_rows")


def person(**values):
    return Person.objects.create(**{"code": "ada", "house": 4, "room": 2} | values)


def of(one, way="sitter", **columns):
    """A portrait of somebody, who is named in one of several ways."""
    names = {"house": one.house, "room": one.room} if way == "placed" else {way: one}
    return Portrait.objects.create(**names | columns)


def forget(one):
    """What a database does that does not watch the relation."""
    QuerySet(Person).filter(pk=one.pk)._raw_delete("default")


def error_of(job):
    """What a runner would make of the job's error."""
    with pytest.raises(Exception) as raised:  # noqa: PT011  # any
        job.run()
    return raised.value, explained([job], raised.value)


WAYS = {
    "sitter": "person {0.pk} does",
    "only": "person {0.pk} does",
    "by_code": "person ada does",
    "placed": "person 4, 2 does",
}


def test_a_job_whose_row_is_gone_is_buried_at_once_by_every_kind_of_key():
    one = person()
    jobs = {way: of(one, way, wants=way) for way in WAYS}
    forget(one)
    Note.objects.bulk_create([Note() for _ in range(5)])
    said = work_off("queueapp.portrait", "queueapp.note")
    for way, words in WAYS.items():
        job = fresh(jobs[way])
        assert (job.status, job.attempts) == (Status.BURIED, 1), way
        assert job.last_error == f"{words.format(one)} not exist any more"
        assert "in run\n" in job.errors[0]["traceback"]
        assert "Person matching query does not exist" in job.errors[0]["traceback"]
    assert Note.objects.done().count() == 5
    assert f"Bury: person {one.pk} does not exist any more; attempt 1 of 3" in said


def test_a_key_of_a_child_table_is_asked_for_in_the_child_table():
    friend = Friend.objects.create(code="bob")
    job = claimed(Portrait, friend=friend, wants="friend")
    Friend.objects.filter(pk=friend.pk)._raw_delete("default")
    assert Person.objects.filter(pk=friend.pk).exists()
    _, outcome = error_of(job)
    assert str(outcome) == f"friend {friend.pk} does not exist any more"


@pytest.mark.parametrize("wants", ["another", "wrapped"])
def test_an_ordinary_failure_is_retried(wants):
    one = person()
    job = of(one, wants=wants)
    if wants == "wrapped":
        forget(one)
    work_off("queueapp.portrait")
    assert fresh(job).status == Status.DELAYED
    assert fresh(job).errors[0]["exception"] != "Bury"


def test_one_query_is_made_and_only_for_a_row_that_the_job_names(django_assert_num_queries):
    one = person()
    job = claimed(Portrait, wants="another", sitter=one)
    with pytest.raises(Person.DoesNotExist) as raised:
        job.run()
    with django_assert_num_queries(1):
        assert explained([job], raised.value) is raised.value
    for error in (RuntimeError("no"), Note.DoesNotExist()):
        with django_assert_num_queries(0):
            assert explained([job], error) is error


def test_a_key_that_names_nobody_is_no_orphan(django_assert_num_queries):
    job = claimed(Portrait, wants="another")
    error = Person.DoesNotExist("no")
    with django_assert_num_queries(0):
        assert explained([job], error) is error


def test_a_database_that_is_away_leaves_the_error_as_it_is():
    one = person()
    job = claimed(Portrait, wants="sitter", sitter=one)
    forget(one)

    def away(execute, sql, params, many, context):
        raise OperationalError("server closed the connection unexpectedly")

    error = Person.DoesNotExist("no")
    with connection.execute_wrapper(away):
        assert explained([job], error) is error
    assert isinstance(explained([job], error), Bury)


def test_a_batch_keeps_its_error():
    one = person()
    jobs = [claimed(Gallery, sitter=one) for _ in range(2)]
    forget(one)
    error = Person.DoesNotExist("no")
    assert explained(jobs, error) is error
    assert isinstance(explained(jobs[:1], error), Bury)
