"""Tasks as the targets of schedules: what became of the last one is known."""

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy

from ..guard import capture
from ..schedules.problems import wrong
from ..schedules.targets import WAITING, Looked, State
from ..schedules.task_target import TaskTarget, arguments_of, task_at
from ..states import Status
from . import compat
from .backends import DatabaseBackend, at_once
from .models import AsyncTask, Task

if TYPE_CHECKING:
    from ..schedules.models import Schedule


class ScheduledTask(TaskTarget):
    """Overlaps are for tasks of our own backend: its rows tell what became of them."""

    overlaps = frozenset({"skip", "replace"})

    def clean(self, schedule: "Schedule", using: str) -> None:
        super().clean(schedule, using)
        if problem := _misfit(task_at(schedule.target), *arguments_of(schedule)):
            text = gettext_lazy("arguments do not fit %(task)s: %(problem)s")
            raise wrong("arguments", text, task=schedule.target, problem=problem)
        if schedule.overlap != "allow" and _backend(schedule.target) is None:
            problem = "overlap: what becomes of a task of another backend is not known: only allow"
            raise ValidationError({"overlap": problem})

    def enqueue(self, schedule: "Schedule", using: str) -> str:
        """With its tick: after the commit nobody would try again what is refused, or lost."""
        with at_once():
            return super().enqueue(schedule, using)

    def state(self, target: str, key: str, using: str) -> State:
        for rows in _rows(target, [key], using):
            for status in rows.values_list("status", flat=True):
                if status == Status.CLAIMED:
                    return State.RUNNING
                return State.WAITING if status in WAITING else State.ENDED
        return State.ENDED

    def cancel(self, target: str, key: str, using: str) -> bool:
        found = _rows(target, [key], using)
        return any(rows.filter(status__in=WAITING).cancel().changed for rows in found)

    def look(self, target: str, keys: list[str], using: str) -> dict[str, Looked] | None:
        if _backend(target) is None:
            return None
        found = _rows(target, keys, using)
        jobs = [job for rows in found for job in rows.only(*LOOKED_AT)]
        return {
            str(job.result_id): Looked(job.state, type(job), str(job.pk), job._state.db)
            for job in jobs
        }


LOOKED_AT = "result_id", "status", "dequeued_time", "expires_at"


def _misfit(task: Any, args: list[Any], kwargs: dict[str, Any]) -> str:
    """Why a task's function cannot be called so, or ''. Of an ``enqueue()`` of the project's own
    nobody can tell, as it may give other arguments; nor of some functions."""
    if getattr(type(task), "enqueue", None) is not compat.Task.enqueue:
        return ""
    signature = None
    with capture():
        # Not of what a decorator wraps: it may give other arguments, too.
        signature = inspect.signature(task.func, follow_wrapped=False)
    context = [None] if task.takes_context else []
    try:
        if signature is not None:
            signature.bind(*context, *args, **kwargs)
    except TypeError as error:
        return str(error)
    return ""


def _backend(path: str) -> DatabaseBackend | None:
    backend = getattr(task_at(path), "get_backend", lambda: None)()
    return backend if isinstance(backend, DatabaseBackend) else None


def _rows(target: str, keys: list[str], using: str) -> Iterator[Any]:
    """Those of these results, of each table of tasks."""
    backend = _backend(target)
    alias = using if backend is None else backend.database
    ids = [UUID(key) for key in keys if _is_id(key)]
    for model in (Task, AsyncTask):
        yield model.objects.using(alias).filter(result_id__in=ids)


def _is_id(key: str) -> bool:
    try:
        return bool(UUID(key))
    except ValueError:
        return False
