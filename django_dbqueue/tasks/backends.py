"""What ``settings.TASKS`` may name: the queue table, and for tests Django's own two backends, with
tasks that have our options."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.apps import apps
from django.core import checks
from django.db import router, transaction

from ..lifecycle.policy import MAX_SECONDS, backoff_problem
from .checks import check_backend
from .compat import InvalidTask, TaskResultDoesNotExist, backends, dummy, immediate, signals
from .queued_task import MAX_ATTEMPTS, QueuedTask, backoff_of, option, restored

Call = tuple[Any, Sequence[Any], dict[str, Any]]


class DatabaseBackend(backends.BaseTaskBackend):  # type: ignore[misc]
    """Tasks are rows of ``dbqueue_tasks.Task``, enqueued in the caller's transaction.

    ``OPTIONS``: ``database``, an alias (by default the router's); ``enqueue_on_commit=True``
    inserts the row once the caller's transaction commits.
    """

    task_class = QueuedTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def validate_task(self, task: Any) -> None:
        """``InvalidTask`` names the option and what it may be."""
        run_after = task.run_after
        if isinstance(run_after, timedelta):
            if run_after < timedelta(0):
                raise InvalidTask(f"run_after must not be negative, and is {run_after}.")
            task = restored(task, run_after=None)
        elif run_after is not None and not isinstance(run_after, datetime):
            raise InvalidTask("run_after must be a datetime or a timedelta.")
        super().validate_task(task)
        for name, problem in _problems(task):
            raise InvalidTask(f"{name} {problem}.")

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Insert the task; its result. On an error nothing is written."""
        row = self._row(task, args, kwargs)
        alias = self.database
        if self.options.get("enqueue_on_commit"):
            transaction.on_commit(partial(self._insert, row, task, alias), using=alias)
            return row.enqueued(task)
        return self._insert(row, task, alias)

    async def aenqueue(self, task: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The same, in the transaction of the thread in which async code runs what is not."""
        return await sync_to_async(self.enqueue, thread_sensitive=True)(task, args, kwargs)

    def enqueue_many(self, calls: Iterable[Call]) -> list[Any]:
        """Insert (task, args, kwargs) of each call by multi-row INSERTs; their results, in order.
        On an error none is written. ``ValueError`` where a task has a ``dedup_key``."""
        made = [(task, self._row(task, args, kwargs)) for task, args, kwargs in calls]
        if any(row.dedup_key is not None for _, row in made):
            raise ValueError("enqueue_many() takes no task with a dedup_key: enqueue() it")
        results = [row.enqueued(task) for task, row in made]
        insert = partial(self._insert_many, [row for _, row in made], results, self.database)
        if self.options.get("enqueue_on_commit"):
            transaction.on_commit(insert, using=self.database)
        else:
            insert()
        return results

    def get_result(self, result_id: str) -> Any:
        """``TaskResultDoesNotExist`` where this backend has no such task, or no longer."""
        row = None
        with suppress(ValueError, AttributeError, TypeError):
            key = UUID(result_id)
            rows = self._model()._base_manager.using(self.database)
            row = rows.filter(result_id=key, backend=self.alias).first()
        if row is None:
            raise TaskResultDoesNotExist(result_id)
        return row.result()

    async def aget_result(self, result_id: str) -> Any:
        return await sync_to_async(self.get_result, thread_sensitive=True)(result_id)

    def check(self, **_: Any) -> Iterable[checks.CheckMessage]:
        return check_backend(self.alias, self.options)

    def _row(self, task: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        self.validate_task(task)
        return self._model().of_call(task, self.alias, args, kwargs)

    def _insert(self, row: Any, task: Any, alias: str) -> Any:
        created = row.insert(alias)
        result = row.enqueued(task)
        if created is not row:
            return created.result()
        self._tell(result)
        return result

    def _insert_many(self, rows: list[Any], results: list[Any], alias: str) -> None:
        self._model().insert_many(rows, alias)
        for result in results:
            self._tell(result)

    def _tell(self, result: Any) -> None:
        signals.task_enqueued.send_robust(type(self), task_result=result)

    @property
    def database(self) -> str:
        """The alias on which its tasks are."""
        return str(self.options.get("database") or router.db_for_write(self._model()))

    @staticmethod
    def _model() -> Any:
        # Backends are made while modules of tasks are imported, before there are models.
        return apps.get_model("dbqueue_tasks", "Task")


class DummyBackend(dummy.DummyBackend):  # type: ignore[misc]
    """Django's, which keeps what was enqueued in ``results`` and runs nothing; with our options."""

    task_class = QueuedTask


class ImmediateBackend(immediate.ImmediateBackend):  # type: ignore[misc]
    """Django's, which runs a task at once, and once; with our options and context."""

    task_class = QueuedTask


def _problems(task: Any) -> Iterator[tuple[str, str]]:
    most, seconds = option(task, "max_attempts"), option(task, "time_to_run")
    if not _is_whole(most, 1, MAX_ATTEMPTS):
        yield "max_attempts", f"must be a whole number between 1 and {MAX_ATTEMPTS}"
    if seconds is not None and not _is_whole(seconds, 1, MAX_SECONDS):
        yield "time_to_run", f"must be a whole number of seconds between 1 and {MAX_SECONDS}"
    kinds = option(task, "retry_on")
    if not isinstance(kinds, tuple) or not all(_is_error(kind) for kind in kinds):
        yield "retry_on", "must be a tuple of exception classes"
    if problem := backoff_problem(backoff_of(task)):
        yield "backoff", f"is wrong: {problem}"
    key = option(task, "dedup_key")
    if not (key is None or callable(key) or isinstance(key, str)):
        yield "dedup_key", "must be text, or a function that returns it"


def _is_whole(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _is_error(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException)
