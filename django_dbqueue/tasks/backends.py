"""What ``settings.TASKS`` may name: the queue table, and for tests Django's own two backends, with
tasks that have our options."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.apps import apps
from django.conf import settings
from django.core import checks
from django.core.exceptions import ValidationError
from django.db import DEFAULT_DB_ALIAS, connections, router, transaction
from django.utils.timezone import is_aware

from ..fields import check_name
from ..lifecycle.policy import MAX_SECONDS, backoff_problem
from . import from_async
from .checks import check_backend
from .compat import InvalidTask, TaskResultDoesNotExist, backends, dummy, immediate, signals
from .keys import key_problems
from .lookup import why_lost
from .queued_task import (
    ALIAS_MAX,
    MAX_ATTEMPTS,
    PATH_MAX,
    QueuedTask,
    backoff_of,
    is_for_event_loop,
    option,
    restored,
)
from .results import new_result

Call = tuple[Any, Sequence[Any], dict[str, Any]]
Made = tuple[Any, dict[str, Any], Any]  # task, columns, result
_at_once: ContextVar[bool] = ContextVar("at_once", default=False)


@contextmanager
def at_once() -> Iterator[None]:
    """In the caller's transaction, also where a backend waits for its commit otherwise."""
    before = _at_once.set(True)
    try:
        yield
    finally:
        _at_once.reset(before)


class TakesOptions(backends.BaseTaskBackend):  # type: ignore[misc]
    """A backend for tasks with our options; it refuses what the queue table would."""

    task_class = QueuedTask

    def validate_task(self, task: Any) -> None:
        """``InvalidTask`` names the option and what it may be."""
        run_after = task.run_after
        if isinstance(run_after, timedelta):
            if not timedelta(0) <= run_after <= timedelta(seconds=MAX_SECONDS):
                raise InvalidTask(f"run_after must be between 0 and {MAX_SECONDS} seconds.")
            if not self.supports_defer:  # in the framework's words, which looks at datetimes alone
                raise InvalidTask("Backend does not support run_after.")
            task = restored(task, run_after=None)
        for name, problem in _unlike_the_frameworks(task):
            raise InvalidTask(f"{name} {problem}.")
        super().validate_task(task)
        for name, problem in _problems(task):
            raise InvalidTask(f"{name} {problem}.")

    def enqueue_many(self, calls: Iterable[Call]) -> list[Any]:
        """One after the other; their results."""
        return [self.enqueue(task, args, kwargs) for task, args, kwargs in calls]

    async def aenqueue_many(self, calls: Iterable[Call]) -> list[Any]:
        """``enqueue_many`` from async code."""
        return await sync_to_async(self.enqueue_many, thread_sensitive=True)(calls)


class DatabaseBackend(TakesOptions):
    """Tasks are rows of ``dbqueue_tasks.Task``, enqueued in the caller's transaction.

    ``OPTIONS``: ``database``, an alias (by default the router's); ``enqueue_on_commit=True``
    inserts the row once the caller's transaction commits, on whatever database that is.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Insert the task; its result. On an error nothing is written."""
        self._validate(task)
        columns, alias = self._columns(task, args, kwargs), self.database
        # Before anything is written: it may be refused, too.
        result = new_result(task, columns)
        insert = partial(self._insert, task, columns, result, alias)
        awaited = self._awaited(alias)
        if awaited is None:
            return insert()
        transaction.on_commit(insert, using=awaited)
        return result

    async def aenqueue(self, task: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The same, in the caller's transaction."""
        return await from_async.run(self.enqueue, task, args, kwargs)

    def enqueue_many(self, calls: Iterable[Call]) -> list[Any]:
        """Insert (task, args, kwargs) of each call by multi-row INSERTs; their results, in order.
        On an error none is written. ``ValueError`` where a task has a ``dedup_key``."""
        made: list[Made] = []
        valid = None
        for task, args, kwargs in calls:
            if task is not valid:
                self._validate(task)
                valid = task
            columns = self._columns(task, args, kwargs)
            if columns["dedup_key"] is not None:
                raise ValueError("enqueue_many() takes no task with a dedup_key: enqueue() it")
            made.append((task, columns, new_result(task, columns)))
        insert = partial(self._insert_many, made, self.database)
        awaited = self._awaited(self.database)
        if awaited is None:
            insert()
        else:
            transaction.on_commit(insert, using=awaited)
        return [result for _, _, result in made]

    async def aenqueue_many(self, calls: Iterable[Call]) -> list[Any]:
        """The same from async code, in the caller's transaction."""
        results: list[Any] = await from_async.run(self.enqueue_many, calls)
        return results

    def get_result(self, result_id: str) -> Any:
        """``TaskResultDoesNotExist`` where this backend has no such task, or no longer."""
        with suppress(ValueError, AttributeError, TypeError):
            key = UUID(result_id)
            for model in self._models():
                rows = model._base_manager.using(self.database)
                row = rows.filter(result_id=key, backend=self.alias).first()
                if row is not None and str(key) == result_id:
                    return row.result()
        raise TaskResultDoesNotExist(result_id)

    async def aget_result(self, result_id: str) -> Any:
        return await from_async.run(self.get_result, result_id)

    def check(self, **_: Any) -> Iterable[checks.CheckMessage]:
        return check_backend(self.alias, self.options)

    def _validate(self, task: Any) -> None:
        self.validate_task(task)
        # Not where it is declared: its module is half imported then.
        if problem := why_lost(task.module_path):
            raise InvalidTask(
                f"no worker would find it: {problem}. Declare it at the top level of a module, "
                f"under the name of its function."
            )

    def _columns(self, task: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        columns: dict[str, Any] = self._model(task).columns_of(task, self.alias, args, kwargs)
        return columns

    def _insert(self, task: Any, columns: dict[str, Any], result: Any, alias: str) -> Any:
        twin = self._model(task).insert(task, columns, alias)
        if twin is not None:
            return twin.result()
        self._tell(result)
        return result

    def _insert_many(self, made: list[Made], alias: str) -> None:
        with transaction.atomic(using=alias, savepoint=False):
            for model in self._models():
                rows = [columns for one, columns, _ in made if self._model(one) is model]
                if rows:
                    model.insert_many(rows, alias)
        for _, _, result in made:
            self._tell(result)

    def _tell(self, result: Any) -> None:
        signals.task_enqueued.send_robust(type(self), task_result=result)

    def _awaited(self, alias: str) -> str | None:
        """The database whose commit it waits for: where the caller has a transaction on several,
        that of the queue, else the default one."""
        if not self.options.get("enqueue_on_commit") or _at_once.get():
            return None
        own = connections[alias]
        if own.in_atomic_block or not own.get_autocommit():
            return alias
        known = connections.all(initialized_only=True)
        begun = [one.alias for one in known if one.in_atomic_block]
        # Where there is no transaction, what it gives back can be told at once.
        return DEFAULT_DB_ALIAS if DEFAULT_DB_ALIAS in begun else next(iter(begun), None)

    @property
    def database(self) -> str:
        """The alias on which its tasks are."""
        return str(self.options.get("database") or router.db_for_write(self._models()[0]))

    def _model(self, task: Any) -> Any:
        return self._models()[is_for_event_loop(task)]

    @staticmethod
    def _models() -> tuple[Any, Any]:
        """The table of functions, and that of coroutine functions."""
        # Backends are made while modules of tasks are imported, before there are models.
        get = partial(apps.get_model, "dbqueue_tasks")
        return get("Task"), get("AsyncTask")


class DummyBackend(TakesOptions, dummy.DummyBackend):  # type: ignore[misc]
    """Django's, which keeps what was enqueued in ``results`` and runs nothing; with our options."""


class ImmediateBackend(TakesOptions, immediate.ImmediateBackend):  # type: ignore[misc]
    """Django's, which runs a task at once, and once; with our options and context."""


def _unlike_the_frameworks(task: Any) -> Iterator[tuple[str, str]]:
    """What the framework does not look at, or meets with another error."""
    if not isinstance(task.priority, int | float) or isinstance(task.priority, bool):
        yield "priority", "must be a whole number"
    if task.run_after is not None and not isinstance(task.run_after, datetime):
        yield "run_after", "must be a datetime or a timedelta"
    elif task.run_after is not None and not settings.USE_TZ and is_aware(task.run_after):
        yield "run_after", "must be a naive datetime without USE_TZ"
    try:
        check_name(task.queue_name, "queue_name")
    except ValidationError as error:
        yield "queue_name", error.messages[0].removeprefix("queue_name ").removesuffix(".")


def _problems(task: Any) -> Iterator[tuple[str, str]]:
    for name, text, limit in (
        ("module_path", task.module_path, PATH_MAX),
        ("backend", task.backend, ALIAS_MAX),
    ):
        if len(text) > limit:
            yield name, f"has {len(text)} characters; the limit is {limit}"
    most, seconds = option(task, "max_attempts"), option(task, "time_to_run")
    if not _is_whole(most, 1, MAX_ATTEMPTS):
        yield "max_attempts", f"must be a whole number between 1 and {MAX_ATTEMPTS}"
    if seconds is not None and not _is_whole(seconds, 1, MAX_SECONDS):
        yield "time_to_run", f"must be a whole number of seconds between 1 and {MAX_SECONDS}"
    kinds = option(task, "retry_on")
    if not isinstance(kinds, tuple) or not all(
        isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds
    ):
        yield "retry_on", "must be a tuple of exception classes"
    if problem := backoff_problem(backoff_of(task)):
        yield "backoff", f"is wrong: {problem}"
    key = option(task, "dedup_key")
    if not (key is None or callable(key) or isinstance(key, str)):
        yield "dedup_key", "must be text, or a function that returns it"
    yield from key_problems(task)


def _is_whole(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
