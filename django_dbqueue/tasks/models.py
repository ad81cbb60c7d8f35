"""The queue tables of tasks: one for functions, one for coroutine functions."""

import json
import os
import time
import uuid
from asyncio import CancelledError, current_task
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar, Self, cast

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connections, models
from django.db.utils import Error
from django.utils.functional import cached_property
from django.utils.translation import gettext_lazy

from ..exceptions import Bury, Retry, shown
from ..fields import InstantField, aware, check_name, later
from ..guard import capture_all, raised
from ..lifecycle import process_clock
from ..lifecycle.limiter import base_of
from ..lifecycle.policy import Policy
from ..lifecycle.twins import renewal
from ..models import KeyedJob, Traced
from . import missing
from .conf import task_conf
from .json_text import JSONText, to_json, to_text
from .keys import key_columns, twin_options
from .lookup import Found, look_up
from .queued_task import ALIAS_MAX, PATH_MAX, backoff_of, option, overdue_pauses
from .results import MIDDLE_PRIORITY, result_of
from .running import acall, call

# Columns that few calls change.
SELDOM = (
    *("queue", "priority", "backend", "run_after", "retry_at", "max_attempts", "time_to_run"),
    *(
        "in_transaction",
        "dedup_key",
        "concurrency_key",
        "concurrency_limit",
        "key_order",
        "overdue_pauses",
    ),
)


def new_id() -> uuid.UUID:
    """A UUID that grows with time (version 7 of RFC 9562), so that its index stays small."""
    stamp = int(time.time() * 1000).to_bytes(6, "big")
    number = int.from_bytes(stamp + os.urandom(10), "big")
    number = number & ~(0xF << 76) | 0x7 << 76
    return uuid.UUID(int=number & ~(0x3 << 62) | 0x2 << 62)


def _backends() -> Iterable[Mapping[str, Any]]:
    """The entries of ``TASKS``."""
    entries = getattr(settings, "TASKS", {}).values()
    return [one for one in entries if isinstance(one, Mapping)]


def _as_stored(args: list[Any], kwargs: dict[str, Any], most: int) -> Any:
    """The arguments as the task will get them. The error names one that is no JSON."""
    try:
        return json.loads(to_text([args, kwargs], "the arguments", most))
    except (TypeError, ValueError):
        for place, value in enumerate(args, start=1):
            to_json(value, f"argument {place}")
        for name, value in kwargs.items():
            to_json(value, f"argument {shown(name)}")
        raise


def _delayed(error: Retry, delay: float) -> Retry:
    """The same error with a delay: a copy, since code may raise one error again and again."""
    copy = type(error).__new__(type(error), *error.args)
    vars(copy).update(vars(error), delay=delay)
    copy.__cause__, copy.__context__ = error.__cause__, error.__context__
    copy.__suppress_context__ = error.__suppress_context__
    return copy.with_traceback(error.__traceback__)


class TaskRow(Traced, KeyedJob):
    """One call of a task: what is called, with what, and what came of it."""

    result_id = models.UUIDField(
        gettext_lazy("result id"), default=new_id, unique=True, editable=False
    )
    task_path = models.CharField(gettext_lazy("task"), max_length=PATH_MAX)
    backend = models.CharField(max_length=ALIAS_MAX, default="default")
    args = JSONText(default=list, blank=True)
    kwargs = JSONText(default=dict, blank=True)
    run_after = InstantField(null=True, editable=False)
    max_attempts = models.PositiveIntegerField(default=1)
    in_transaction = models.BooleanField(gettext_lazy("exactly once"), default=False)
    # The end of its time to run is judged where no code of the project's runs.
    overdue_pauses: Any = JSONText(null=True, editable=False)
    return_value: Any = JSONText(null=True, editable=False)
    progress: Any = JSONText(null=True, editable=False)

    never_replaced: ClassVar[frozenset[str]] = frozenset({"result_id"})

    class Meta(KeyedJob.Meta):
        abstract = True

    class Policy:
        time_to_run: int = task_conf["TIME_TO_RUN"]
        results = ("return_value",)
        prune_after: float | None = task_conf["KEEP_RESULTS"] or None

    def __str__(self) -> str:
        return f"task {self.pk} ({self.task_path})"

    @classmethod
    def written_databases(cls) -> list[str]:
        """Also those that ``TASKS`` names."""
        named = {str(one.get("OPTIONS", {}).get("database") or "") for one in _backends()}
        return sorted({*super().written_databases(), *named & set(connections)})

    @property
    def queue_name(self) -> str:
        """The queue that it was enqueued into; ``queue`` may be a lane of that, with a rate."""
        return base_of(type(self), self.queue)

    @cached_property
    def found(self) -> Found:
        """The task of this code, or why it cannot run here."""
        return look_up(self.task_path, self.backend, self.queue_name)

    @classmethod
    def columns_of(
        cls, task: Any, backend: str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> dict[str, Any]:
        """What a call writes; ``TypeError`` or ``ValueError`` where it cannot be stored."""
        args, kwargs = _as_stored(list(args), dict(kwargs), task_conf["MAX_BYTES"])
        now, key = process_clock.now(), option(task, "dedup_key")
        key = key(*args, **kwargs) if callable(key) else key
        run_after = task.run_after
        if isinstance(run_after, timedelta):
            run_after = later(now, run_after)
        is_delayed = run_after and aware(run_after).timestamp() > aware(now).timestamp()
        retry_at = run_after if is_delayed else None
        if key is not None:
            check_name(key, "dedup_key")
            renewal((), key, {"retry_at": retry_at}, None, **twin_options(task))
        return {
            "result_id": new_id(),
            "queue": task.queue_name,
            "priority": MIDDLE_PRIORITY - int(task.priority),
            "task_path": task.module_path,
            "backend": backend,
            "args": args,
            "kwargs": kwargs,
            "run_after": run_after,
            "retry_at": retry_at,
            "created_at": now,
            "max_attempts": option(task, "max_attempts"),
            "time_to_run": option(task, "time_to_run"),
            "in_transaction": option(task, "exactly_once"),
            "dedup_key": key,
            **key_columns(task, args, kwargs),
            "overdue_pauses": overdue_pauses(task),
        }

    @classmethod
    def insert(cls, task: Any, columns: dict[str, Any], using: str) -> Self | None:
        """Write a row; the one that waits with the same ``dedup_key``, if none was written."""
        if columns["dedup_key"] is None:
            cls(**columns).save(using=using, force_insert=True)
            return None
        twins = twin_options(task)
        if columns["run_after"] is None and twins["debounce"] is None:
            # One that waits keeps the time at which it is due.
            columns = {name: value for name, value in columns.items() if name != "run_after"}
        twin, created = cls.objects.db_manager(using).enqueue(**columns, **twins)
        return None if created else cast(Self | None, twin)

    @classmethod
    def insert_many(cls, rows: Sequence[Mapping[str, Any]], using: str) -> None:
        """What all of them leave at its default needs not be filled in for every row."""
        meta: Any = cls._meta
        defaults = {name: meta.get_field(name).get_default() for name in SELDOM}
        usual = {name for name, v in defaults.items() if all(row[name] == v for row in rows)}
        given = [{name: v for name, v in row.items() if name not in usual} for row in rows]
        cls.objects.db_manager(using).enqueue_many(given)

    def result(self) -> Any:
        """Its ``TaskResult``, as its row is now."""
        return result_of(self)

    def _returned(self, value: Any) -> None:
        """Also None: an attempt that failed may have left a value."""
        if value is not None:
            text = to_text(value, "what it returned", task_conf["RESULT_MAX_BYTES"])
            value = json.loads(text)
        self.return_value = value

    def _ended_by(self, task: Any, error: BaseException) -> BaseException:
        """What the worker is told of an error: tried again, or final."""
        if isinstance(error, Retry):
            # Else the table's own backoff would decide.
            return error if error.delay is not None else _delayed(error, self._pause(task))
        if isinstance(error, Bury):
            return error
        name = type(error).__name__
        if not isinstance(error, option(task, "retry_on")):
            return Bury(f"{name} is none of retry_on", of=error)
        return Retry(self._pause(task), of=error)

    def _pause(self, task: Any) -> float:
        is_last = self.attempts >= self.max_attempts
        return 0 if is_last else Policy(backoff=backoff_of(task)).pause(self.attempts)

    def _wait_for_code(self) -> None:
        row = type(self)._base_manager.using(self._state.db).get(pk=self.pk)
        missing.warn(self)
        self.release(missing.pause(row))


class Task(TaskRow):
    """A call of a function; and of a coroutine function where it is ``exactly_once``."""

    class Meta(TaskRow.Meta):
        pass

    @property
    def exactly_once(self) -> bool:  # type: ignore[override]
        return self.in_transaction and self.found.task is not None

    def run(self) -> None:
        """Call it. Where this code has no such task, it waits for code that has."""
        task = self.found.task
        if task is None:
            self._wait_for_code()
            return
        with capture_all() as run:
            self._returned(call(task, self))
        if run.error is None:
            return
        error = raised(run.error)
        if self.in_exactly_once_run and isinstance(error, Error):
            raise error  # it may run again at once
        raise self._ended_by(task, error)

    def _judged(self, error: Exception) -> BaseException:
        task = self.found.task
        return error if task is None else self._ended_by(task, error)


class AsyncTask(TaskRow):
    """A call of a coroutine function: many at once with ``runworker --coroutines``."""

    class Meta(TaskRow.Meta):
        verbose_name = gettext_lazy("async task")

    async def run(self) -> None:  # type: ignore[override]
        """Await it, like ``Task.run``."""
        task = self.found.task
        if task is None:
            await sync_to_async(self._wait_for_code)()
            return
        with capture_all() as run:
            self._returned(await acall(task, self))
        if run.error is None:
            return
        error, this = raised(run.error), current_task()
        if isinstance(error, CancelledError) and this is not None and this.cancelling():
            raise error  # who has cancelled it knows why
        raise self._ended_by(task, error)
