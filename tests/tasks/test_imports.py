"""``dbqueue import``: what waits in another backend's tables runs here, under its old id."""

from datetime import datetime
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.test import override_settings

from django_dbqueue.tasks import compat
from django_dbqueue.tasks.imports import take_over
from django_dbqueue.tasks.models import AsyncTask, Task
from tests.kit.bounds import limits
from tests.kit.connections import other_connection
from tests.kit.other_backends import BACKENDS, migrated, rows
from tests.tasks import calls
from tests.tasks.test_backend import PATH, work_off
from tests.tasks.test_backend import backend as backend_of_today

OTHER = "1 wait: queue 'other' is none of the QUEUES of TASKS['default']"
pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.process]

ODD = {"words": "süß 🎉", "n": [None]}
WAITING = """
told["ids"] = [
    calls.add.using(priority=7).enqueue(1, b=2).id,
    calls.echo.using(queue_name="other", priority=-100).enqueue(@).id,
    calls.add.enqueue(3).id,
    calls.echo.using(run_after=timezone.now() + timedelta(days=1)).enqueue("later").id,
    calls.echo.using(run_after=timezone.now() + timedelta(microseconds=1)).enqueue("due").id,
]
result = task_backends["default"].get_result
told["at"] = [result(one).enqueued_at.isoformat() for one in told["ids"]]
told["later"] = result(told["ids"][3]).task.run_after.isoformat()
""".replace("@", repr(ODD))
FIVE = 'told["ids"] = [calls.echo.enqueue(n).id for n in range(5)]'


@pytest.fixture(scope="module", params=BACKENDS, ids=lambda one: one.name)
def tables(request, django_db_setup, django_db_blocker):
    with django_db_blocker.unblock(), migrated(request.param) as backend:
        yield backend


@pytest.fixture
def backend(tables, db_rows):
    yield tables
    tables.empty()


def imported(backend, *args):
    out = StringIO()
    call_command("dbqueue", "import", "--from", backend.name, *args, stdout=out)
    return out.getvalue().rstrip("\n").split("\n")


def moved():
    return list(Task.objects.order_by("pk"))


def moment(text):
    return datetime.fromisoformat(text)


def test_what_waits_is_moved_as_it_was_enqueued(backend):
    told = backend.fill(WAITING)
    assert imported(backend) == [
        f"5 tasks were moved from {backend.name}, 1 of them due later",
        f"note: {OTHER}",
    ]
    assert backend.count() == 0
    found = moved()
    assert [str(row.result_id) for row in found] == told["ids"]
    assert [row.created_at for row in found] == [moment(text) for text in told["at"]]
    assert [(row.args, row.kwargs) for row in found[:3]] == [
        ([1], {"b": 2}),
        ([ODD], {}),
        ([3], {}),
    ]
    assert [row.queue for row in found] == ["default", "other", "default", "default", "default"]
    assert [1024 - row.priority for row in found] == [7, -100, 0, 0, 0]
    assert {row.backend for row in found} == {"default"}
    assert found[0].task_path == calls.add.module_path
    later = moment(told["later"])
    assert [row.retry_at for row in found] == [None, None, None, later, None]
    assert [row.run_after for row in found[:4]] == [None, None, None, later]


def test_coroutine_functions_wait_for_the_event_loop(backend):
    told = backend.fill(
        'told["ids"] = [calls.slow_double.enqueue(21).id, calls.add.enqueue(1, 2).id]'
    )
    assert imported(backend)[0].startswith(f"2 tasks were moved from {backend.name}")
    [coroutine] = AsyncTask.objects.all()
    assert str(coroutine.result_id) == told["ids"][0]
    assert [str(row.result_id) for row in moved()] == told["ids"][1:]
    work_off()
    assert calls.slow_double.get_result(told["ids"][0]).return_value == 42


@override_settings(TASKS={"default": {"BACKEND": PATH, "QUEUES": []}})
def test_a_worker_runs_it_and_its_old_id_finds_the_result(backend):
    ids = backend.fill(WAITING)["ids"]
    before = backend.count()
    imported(backend)
    assert (before, backend.count(), len(moved())) == (5, 0, 5)
    assert backend_of_today().get_result(ids[0]).status == compat.TaskResultStatus.READY
    work_off()
    results = [backend_of_today().get_result(one) for one in ids]
    values = [one.return_value for one in (*results[:3], results[4])]
    assert values == [3, ODD, 3, "due"]
    assert results[3].status == compat.TaskResultStatus.READY


def test_what_runs_or_is_over_there_stays_there_and_is_counted(backend):
    backend.fill(FIVE, ran=True)
    first, *left = imported(backend)
    assert first.startswith("5 tasks were moved")
    assert sorted(line.split(": ")[1] for line in left) == ["1 failed", "1 finished", "1 running"]
    assert backend.count() == 3
    assert imported(backend) == [
        f"0 tasks were moved from {backend.name}, 0 of them due later",
        *left,
    ]


def test_a_queue_without_room_for_them_is_told_and_nothing_is_moved(backend):
    backend.fill(FIVE)
    full = pytest.raises(CommandError, match="max_length is 3; nothing was written")
    with limits("dbqueue_tasks.task", max_length=3), full:
        imported(backend)
    assert (backend.count(), moved()) == (5, [])


def test_a_dry_run_says_so_and_writes_nothing(backend):
    backend.fill(WAITING, ran=True)
    said = imported(backend, "--dry-run")
    assert said[0] == f"5 tasks would be moved from {backend.name}, 1 of them due later"
    assert (backend.count(), moved()) == (8, [])
    assert imported(backend)[1:] == said[1:]
    assert (backend.count(), len(moved())) == (3, 5)


def test_the_options_are_those_of_the_code_of_today(backend):
    backend.fill("calls.fail_thrice.enqueue(), calls.short.enqueue(), calls.pay.enqueue(1)")
    imported(backend)
    options = [(row.max_attempts, row.time_to_run, row.in_transaction) for row in moved()]
    assert options == [(3, None, False), (1, 7, False), (1, None, True)]


# dj-queue asks the task for options of the same names, and would limit it by them.
TASKS_DB = pytest.param(BACKENDS[0], id=BACKENDS[0].name)
tasks_db_alone = pytest.mark.parametrize("tables", [TASKS_DB], indirect=True)


@tasks_db_alone
def test_each_gets_the_concurrency_key_that_the_code_of_today_gives_it(backend):
    code = "calls.export.enqueue('a', pages=2), calls.post.enqueue('b'), calls.add.enqueue(1)"
    backend.fill(code)
    imported(backend)
    keys = [(row.concurrency_key, row.concurrency_limit, row.key_order) for row in moved()]
    assert keys == [("tenant a", 2, None), ("b", None, "skip"), (None, None, None)]


@tasks_db_alone
def test_a_task_whose_code_makes_no_key_of_its_arguments_is_left_and_the_rest_is_moved(backend):
    code = "told['ids'] = [calls.restock.enqueue(one).id for one in ('west', 'north')]"
    ids = backend.fill(code)["ids"]
    assert imported(backend)[1:] == [
        "left there: 1 that cannot be taken over",
        f"  {ids[0]}: KeyError: 'west'",
    ]
    assert [row.concurrency_key for row in moved()] == ["n"]


@override_settings(DBQUEUE={"TASK_MAX_BYTES": 500})
def test_what_cannot_be_taken_over_is_named_and_the_rest_is_moved(backend):
    code = 'told["ids"] = [calls.echo.enqueue("x" * n).id for n in (10, 600, 20, 30, 40)]'
    ids = backend.fill(code)["ids"]
    keys = [key for (key,) in rows(f"SELECT id FROM {backend.jobs}")]
    raw = {str(key).replace("-", ""): key for key in keys}
    path, payload, queue = (raw[ids[n].replace("-", "")] for n in (2, 3, 4))
    where = f"WHERE {connection.ops.quote_name('id')} = %s"
    rows(f"UPDATE {backend.jobs} SET task_path = %s {where}", "x." * 150, path)
    rows(f"UPDATE {backend.jobs} SET {backend.payload} = '[1]' {where}", payload)
    rows(f"UPDATE {backend.jobs} SET queue_name = ' spaces ' {where}", queue)
    said = imported(backend)
    assert said[:2] == [
        f"1 tasks were moved from {backend.name}, 0 of them due later",
        "left there: 4 that cannot be taken over",
    ]
    reasons = dict(line.strip().split(": ", 1) for line in said[2:])
    assert list(reasons) == ids[1:]
    problems = list(reasons.values())
    assert problems[0] == "the arguments cannot be stored: 609 bytes of JSON; the limit is 500"
    assert problems[1].startswith("task_path: Ensure this value has at most 255 characters")
    assert problems[2] == 'its arguments are not {"args": [...], "kwargs": {...}}'
    assert problems[3] == "queue must not begin or end with a space: ' spaces '"
    assert [str(row.result_id) for row in moved()] == ids[:1]
    assert backend.count() == 4


def test_an_id_that_is_here_already_is_left_there(backend):
    ids = backend.fill(FIVE)["ids"]
    Task.objects.create(result_id=ids[1], task_path=calls.echo.module_path)
    assert imported(backend)[1:] == [
        "left there: 1 that cannot be taken over",
        f"  {ids[1]}: a task with this id is here already",
    ]
    assert backend.count() == 1


def test_many_batches_keep_the_order(backend, monkeypatch):
    monkeypatch.setattr(take_over, "BATCH", 2)
    monkeypatch.setattr(take_over, "INSERT_BYTES", 1)
    ids = backend.fill(FIVE)["ids"]
    imported(backend)
    assert [str(row.result_id) for row in moved()] == ids


@pytest.mark.each_database
def test_an_error_in_the_middle_leaves_all_where_it_was(backend, monkeypatch):
    monkeypatch.setattr(take_over, "BATCH", 2)
    backend.fill(FIVE)
    deletes = []

    def fail_at_the_second(execute, sql, *rest):
        if sql.startswith("DELETE") and backend.jobs in sql:
            deletes.append(sql)
        if len(deletes) == 2:
            raise OperationalError("the server has gone")
        return execute(sql, *rest)

    with (
        connection.execute_wrapper(fail_at_the_second),
        pytest.raises(CommandError, match="the server has gone"),
    ):
        imported(backend)
    assert (backend.count(), moved()) == (5, [])
    imported(backend)
    assert (backend.count(), len(moved())) == (0, 5)


@pytest.mark.each_database
def test_rows_that_cannot_be_removed_there_are_not_moved(backend):
    """Two tasks with one id would be worse than none moved."""
    backend.fill(FIVE)

    def keep(execute, sql, *rest):
        return execute(f"{sql} AND 1 = 0" if sql.startswith("DELETE") else sql, *rest)

    with (
        connection.execute_wrapper(keep),
        pytest.raises(CommandError, match="0 of 5 rows could be"),
    ):
        imported(backend)
    assert (backend.count(), moved()) == (5, [])


@pytest.mark.skipif("connection.vendor == 'sqlite'", reason="there is one writer at a time")
def test_a_row_that_a_worker_is_about_to_claim_is_left_to_it(backend):
    backend.fill(FIVE)
    table = "dj_queue_ready_executions" if backend.name == "dj-queue" else backend.jobs
    worker = other_connection()
    try:
        worker.set_autocommit(False)
        with worker.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {table} LIMIT 1 FOR UPDATE")
            assert len(cursor.fetchall()) == 1
        assert imported(backend) == [
            f"4 tasks were moved from {backend.name}, 0 of them due later",
            f"left there: 1 that a worker of {backend.name} was about to take",
        ]
    finally:
        worker.rollback()
        worker.close()
    assert backend.count() == 1


def test_results_that_the_settings_do_not_find_are_told(backend):
    backend.fill(FIVE)
    words = "5 are of the backend 'default': {}, so that nobody finds their results"
    dummy = "django_dbqueue.tasks.backends.DummyBackend"
    for tasks, problem in (
        ({"default": {"BACKEND": dummy}}, "TASKS['default'] is another backend"),
        ({"other": {"BACKEND": PATH}}, "TASKS has no 'default'"),
    ):
        with override_settings(TASKS=tasks):
            assert imported(backend, "--dry-run")[1:] == [f"note: {words.format(problem)}"]
    assert len(imported(backend, "--dry-run")) == 1


def test_what_this_code_cannot_run_is_moved_and_told(backend):
    backend.fill(FIVE)
    rows(f"UPDATE {backend.jobs} SET task_path = 'tests.tasks.calls.gone'")
    said = imported(backend)
    assert said[0].startswith("5 tasks were moved")
    assert said[1].startswith("note: 5 wait: tests.tasks.calls.gone cannot be imported: ")
    assert (backend.count(), len(moved())) == (0, 5)


def test_a_table_or_a_column_that_is_not_there_is_named(backend):
    rows(f"ALTER TABLE {backend.jobs} RENAME TO gone_for_now")
    try:
        with pytest.raises(
            CommandError, match=f"'default' has no table {backend.jobs}; --database"
        ):
            imported(backend)
    finally:
        rows(f"ALTER TABLE gone_for_now RENAME TO {backend.jobs}")
    rows(f"ALTER TABLE {backend.jobs} RENAME COLUMN task_path TO old_path")
    try:
        with pytest.raises(CommandError, match="no column task_path: migrate it to"):
            imported(backend)
    finally:
        rows(f"ALTER TABLE {backend.jobs} RENAME COLUMN old_path TO task_path")


LIMITED = """
from django import tasks as framework
from dj_queue.api import concurrency
from dj_queue.models import ReadyExecution, RecurringExecution, RecurringTask
from dj_queue.operations.queues import pause_queue
from dj_queue.operations.recurring import fire_recurring_task, schedule_recurring_task
"""
TICK = "told['at'] = schedule_recurring_task(key='k', task_path=calls.noop.module_path, "
TICK += "schedule='0 3 * * *').pk\n"
FIRE = """
at = timezone.now().replace(hour=3, minute=0, second=0, microsecond=0)
told["fired"] = fire_recurring_task(RecurringTask.objects.get(), at) is not None
told["ticks"] = RecurringExecution.objects.count()
"""


DJ_QUEUE = pytest.param(BACKENDS[1], id="dj-queue", marks=pytest.mark.newest)
dj_queue_alone = pytest.mark.parametrize("tables", [DJ_QUEUE], indirect=True)


@dj_queue_alone
def test_what_a_concurrency_key_limits_is_left_and_counted(backend):
    """Here nothing would hold them back."""
    code = "limited = concurrency(key='one', limit=1)(framework.task(calls.noop.func))\n"
    backend.fill(LIMITED + code + "[limited.enqueue() for _ in range(3)], calls.add.enqueue(1)")
    first, *left = imported(backend)
    assert first == "1 tasks were moved from dj-queue, 0 of them due later"
    assert [line.split(" ")[2:4] for line in left] == [["2", "blocked"], ["1", "limited"]]
    assert backend.count() == 3


@dj_queue_alone
def test_a_tick_whose_job_was_moved_is_not_enqueued_there_again(backend):
    assert backend.fill(LIMITED + TICK + FIRE)["fired"]
    assert imported(backend) == [
        "1 tasks were moved from dj-queue, 0 of them due later",
        "note: 1 recurring tasks are declared there, and are not taken over",
    ]
    told = backend.fill(LIMITED + FIRE)
    assert (told["fired"], told["ticks"], backend.count()) == (False, 1, 0)


@dj_queue_alone
def test_queues_that_are_paused_there_are_named(backend):
    backend.fill(LIMITED + "pause_queue('slow'), pause_queue('default'), calls.noop.enqueue()")
    assert imported(backend)[1:] == ["note: paused there, and not here: default, slow"]
