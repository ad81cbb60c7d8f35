"""Rows that are inserted once the caller's transaction commits."""

import asyncio
from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync
from django.core.exceptions import ValidationError
from django.db import connections, transaction

from django_dbqueue.models import Queue
from django_dbqueue.tasks import compat
from django_dbqueue.tasks.models import AsyncTask, Task
from tests.kit.effects_elsewhere import empty_database
from tests.tasks import calls
from tests.tasks.test_backend import PATH, rows

pytestmark = pytest.mark.usefixtures("db_rows", "on_commit")


@pytest.fixture
def on_commit(settings):
    settings.TASKS = {"default": {"BACKEND": PATH, "OPTIONS": {"enqueue_on_commit": True}}}


@pytest.fixture
def queue_aside(db_rows, on_commit, settings, tmp_path):
    """The queue is on "aside", the project's rows are on "default"."""
    options = {"enqueue_on_commit": True, "database": "aside"}
    settings.TASKS = {"default": {"BACKEND": PATH, "OPTIONS": options}}
    with empty_database(tmp_path):
        with connections["aside"].schema_editor() as editor:
            for model in (Queue, Task, AsyncTask):
                editor.create_model(model)
        yield


def aside():
    """The ids of the rows that are there."""
    models = Task, AsyncTask
    return [str(row.result_id) for one in models for row in one.objects.using("aside")]


def enqueue_one():
    return [calls.noop.enqueue()]


def enqueue_many():
    return calls.noop.enqueue_many([(1,), (2,)])


def enqueue_from_async():
    return [async_to_sync(calls.slow_double.aenqueue)(1)]


def enqueue_in_a_loop():
    return asyncio.run(calls.noop.aenqueue_many([(1,), (2,)]))


WAYS = [enqueue_one, enqueue_many, enqueue_from_async, enqueue_in_a_loop]


def test_the_id_is_the_one_that_was_told():
    with transaction.atomic():
        given = calls.noop.enqueue()
        many = calls.noop.enqueue_many([(1,), (2,)])
        assert rows() == []
    assert [str(row.result_id) for row in rows()] == [given.id, *[one.id for one in many]]
    with transaction.atomic():
        calls.noop.enqueue()
        transaction.set_rollback(True)
    assert len(rows()) == 3


def test_without_a_transaction_it_is_inserted_at_once_with_the_twins_result():
    once = calls.noop.using(dedup_key="k")
    assert once.enqueue().id == once.enqueue().id
    assert len(rows()) == 1


def test_a_time_that_does_not_fit_a_debounce_is_refused_before_the_commit():
    late = calls.noop.using(dedup_key="k", debounce=5, run_after=timedelta(seconds=10))
    with transaction.atomic():
        with pytest.raises(ValidationError, match="debounce"):
            late.enqueue()
        calls.noop.enqueue()
    assert len(rows()) == 1


def test_a_dedup_key_that_is_too_long_is_refused_before_the_commit():
    with transaction.atomic(), pytest.raises(ValidationError, match="dedup_key"):
        calls.noop.using(dedup_key="x" * 201).enqueue()


@pytest.mark.usefixtures("queue_aside")
@pytest.mark.parametrize("enqueue", WAYS)
def test_a_queue_on_another_database_gets_nothing_of_what_is_rolled_back(enqueue):
    with transaction.atomic():
        enqueue()
        transaction.set_rollback(True)
    assert aside() == []


@pytest.mark.usefixtures("queue_aside")
@pytest.mark.parametrize("enqueue", WAYS)
def test_a_queue_on_another_database_gets_it_once_as_the_caller_commits(enqueue):
    with transaction.atomic():
        with transaction.atomic():
            given = enqueue()
        assert aside() == []
    assert aside() == [one.id for one in given]


@pytest.mark.usefixtures("queue_aside")
def test_of_two_transactions_the_one_on_the_database_of_the_queue_is_waited_for():
    with transaction.atomic():
        with transaction.atomic(using="aside"):
            given = calls.noop.enqueue()
            assert aside() == []
        assert aside() == [given.id]


@pytest.mark.usefixtures("queue_aside")
def test_outside_transactions_a_queue_on_another_database_gets_it_at_once():
    given = calls.noop.enqueue()
    assert aside() == [given.id]
    assert given.status == compat.TaskResultStatus.READY


def test_a_transaction_on_a_database_that_is_not_the_default_is_waited_for(tmp_path):
    with empty_database(tmp_path):
        with transaction.atomic(using="aside"):
            calls.noop.enqueue()
            assert rows() == []
            transaction.set_rollback(True, using="aside")
        assert rows() == []
        with transaction.atomic(using="aside"):
            calls.noop.enqueue()
        assert len(rows()) == 1
