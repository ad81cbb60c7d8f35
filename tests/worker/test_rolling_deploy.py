"""Old and new workers at work on the same table: an added column, and jobs for new code alone."""

import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, models
from django.db.models import QuerySet

from django_dbqueue.models import Worker
from django_dbqueue.states import Status
from tests.kit.processes import QUICK, ROOT, lines, running
from tests.kit.waiting import wait_until
from tests.queueapp.models import Rolled, Versioned

pytestmark = pytest.mark.usefixtures("db_rows")


def of_code(database_url: str, code: str, *args: str, version: int = 0) -> Any:
    """A process with old or new code; one of its own, since models are made by importing them."""
    own = {"QUEUEAPP_CODE": code, "DBQUEUE_CODE_VERSION": str(version), "PYTHONPATH": str(ROOT)}
    return running(database_url, *args, **QUICK, **own)


def enqueue_by_new_code(database_url: str, log: str, sizes: range) -> None:
    made = f"for n in {sizes}: Rolled.objects.create(log={log!r}, size=n)"
    code = f"from tests.queueapp.models import Rolled\n{made}"
    with of_code(database_url, "new", "shell", "-c", code) as process:
        assert process.end(90) == 0


def add_column() -> None:
    """As a migration does, with the workers at work."""
    field = models.IntegerField(null=True)
    field.set_attributes_from_name("size")
    field.model = Rolled
    with connection.schema_editor() as editor:
        editor.add_field(Rolled, field)


@pytest.fixture
def column_is_dropped(db_rows):
    yield
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE queueapp_rolled DROP COLUMN size")


def all_done(model: Any) -> bool:
    return not QuerySet(model).exclude(status=Status.DONE).exists()


def run_by(log: str) -> set[str]:
    return {line.split()[1] for line in lines(log)}


@pytest.mark.each_database
@pytest.mark.usefixtures("column_is_dropped")
def test_a_column_is_added_with_old_workers_at_work_and_new_ones_next_to_them(
    database_url: str, tmp_path: Path
) -> None:
    log = str(tmp_path / "log")
    enqueue: Callable[[], Any] = lambda: Rolled.objects.create(log=log)  # noqa: E731

    def has_run_by_both() -> bool:
        enqueue()
        return run_by(log) == {"old", "new"}

    with ExitStack() as stack:
        old = stack.enter_context(of_code(database_url, "old", "runworker", "queueapp.Rolled"))
        for _ in range(5):
            enqueue()
        wait_until(lambda: len(lines(log)) == 5)
        add_column()
        enqueue()
        wait_until(lambda: len(lines(log)) == 6)
        stack.enter_context(of_code(database_url, "new", "runworker", "queueapp.Rolled"))
        wait_until(has_run_by_both)
        enqueue_by_new_code(database_url, log, range(50))
        wait_until(lambda: all_done(Rolled))
        old.send(signal.SIGTERM)
        assert old.end() == 0
        enqueue_by_new_code(database_url, log, range(50, 60))
        wait_until(lambda: all_done(Rolled))
    keys = [int(line.split()[0]) for line in lines(log)]
    assert sorted(keys) == sorted(QuerySet(Rolled).values_list("pk", flat=True))
    with connection.cursor() as cursor:
        cursor.execute("SELECT size FROM queueapp_rolled WHERE size IS NOT NULL ORDER BY size")
        # Whatever code has run and saved them.
        assert [size for (size,) in cursor.fetchall()] == list(range(60))
    assert {line.split(" ", 2)[2] for line in lines(log) if " old " in line} == {"no size"}
    assert {line.split(" ", 2)[2] for line in lines(log) if " new " in line} > {"None"}


def test_jobs_for_new_code_are_run_by_new_workers_alone(database_url: str, tmp_path: Path) -> None:
    log = str(tmp_path / "log")

    def work() -> bool:
        """What an old worker has put off comes back at once: until new ones have run it all."""
        Versioned.objects.delayed().kick()
        return all_done(Versioned) and run_by(log) == {"1", "2"}

    Versioned.objects.enqueue_many([{} for _ in range(20)], log=log, min_version=2)
    with ExitStack() as stack:
        start = lambda version: stack.enter_context(  # noqa: E731
            of_code(database_url, "new", "runworker", "queueapp.Versioned", version=version)
        )
        start(1)
        wait_until(lambda: Versioned.objects.delayed().count() == 20)
        Versioned.objects.create(log=log)
        wait_until(lambda: lines(log))
        start(2)
        wait_until(lambda: Worker.objects.filter(code_version=2).exists())
        wait_until(work)
    ran = dict(line.split() for line in lines(log))
    needed = Versioned.objects.values_list("pk", "min_version")
    assert all(int(ran[str(key)]) >= version for key, version in needed)
    assert len(lines(log)) == 21
    assert set(Versioned.objects.values_list("attempts", flat=True)) == {1}
