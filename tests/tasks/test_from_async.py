"""Event loops that sync code runs on its own thread, inside its transaction."""

import asyncio

import pytest
from asgiref.sync import sync_to_async
from django.core.exceptions import SynchronousOnlyOperation
from django.db import connection, connections, transaction
from django.test import override_settings

from django_dbqueue.tasks import compat
from tests.tasks import calls
from tests.tasks.test_backend import PATH, backend, rows, work_off

pytestmark = pytest.mark.usefixtures("db_rows")


async def each_way():
    """Whatever async code may ask for; the ids."""
    one = await calls.add.aenqueue(1)
    more = await asyncio.gather(*[calls.add.aenqueue(number) for number in range(3)])
    many = await calls.add.aenqueue_many([(4,), (5,)])
    later = await calls.slow_double.aenqueue(6)
    assert await calls.add.aget_result(one.id) == one
    await later.arefresh()
    return [result.id for result in (one, *more, *many, later)]


def test_a_loop_inside_a_transaction_is_rolled_back_with_it():
    with transaction.atomic():
        calls.add.enqueue(0)  # so that SQLite has one writer
        ids = asyncio.run(each_way())
        assert len(rows()) == 7
        transaction.set_rollback(True)
    assert len(set(ids)) == 7
    assert rows() == []


def test_it_is_committed_with_it():
    with transaction.atomic():
        asyncio.run(each_way())
    work_off()
    assert [row.return_value for row in rows()] == [1, 0, 1, 2, 4, 5]


def test_its_row_waits_for_the_commit_where_that_is_asked():
    on_commit = {"default": {"BACKEND": PATH, "OPTIONS": {"enqueue_on_commit": True}}}
    with override_settings(TASKS=on_commit), transaction.atomic():
        asyncio.run(calls.add.aenqueue(1))
        assert rows() == []
    assert len(rows()) == 1


def test_the_loop_goes_on_as_a_loop():
    async def enqueue_and_ask():
        await calls.add.aenqueue(1)
        with pytest.raises(TypeError):
            await calls.echo.aenqueue(object())
        with pytest.raises(SynchronousOnlyOperation):
            calls.add.enqueue(1)
        return asyncio.get_running_loop()

    with transaction.atomic():
        assert asyncio.run(enqueue_and_ask()).is_closed()
        assert len(rows()) == 1


def test_receivers_that_are_coroutine_functions_hear_of_it():
    heard = []

    async def hear(task_result, **_):
        await asyncio.sleep(0)
        heard.append(task_result.id)

    compat.signals.task_enqueued.connect(hear)
    try:
        with transaction.atomic():
            given = asyncio.run(backend().aenqueue(calls.add, [1], {}))
    finally:
        compat.signals.task_enqueued.disconnect(hear)
    assert heard == [given.id]


def test_a_transaction_that_is_over_holds_nobody():
    with transaction.atomic():
        pass
    assert not connection.in_atomic_block

    async def enqueue():
        given = await calls.add.aenqueue(1)
        # Those of the thread in which this has run.
        await sync_to_async(connections.close_all)()
        return given

    assert asyncio.run(enqueue()).id == str(rows()[0].result_id)
