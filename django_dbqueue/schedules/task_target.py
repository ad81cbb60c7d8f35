"""A task of Django's Tasks framework, or any object that has ``enqueue``."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ValidationError
from django.utils.module_loading import import_string
from django.utils.translation import gettext_lazy

from ..exceptions import shown
from ..guard import capture, message_of
from .problems import wrong
from .targets import TARGETS, Target

if TYPE_CHECKING:
    from .models import Schedule

KEY_CHARS_MAX = 64


class TaskTarget(Target):
    """``target`` is a task's dotted path, ``arguments`` are ``{"args": [], "kwargs": {}}``.

    A tick is one task only where its backend writes to the same database in the caller's
    transaction; elsewhere a worker that dies between the two enqueues it again.
    """

    label = "task"
    judges_priority = True

    def clean(self, schedule: "Schedule", using: str) -> None:
        task = task_at(schedule.target)
        arguments_of(schedule)
        for column, name, value in _options(schedule):
            with capture() as outcome:
                task.using(**{name: value})
            if outcome.error is not None:
                raise ValidationError({column: message_of(outcome.error)})

    def enqueue(self, schedule: "Schedule", using: str) -> str:
        task, (args, kwargs) = task_at(schedule.target), arguments_of(schedule)
        if given := {name: value for _, name, value in _options(schedule)}:
            task = task.using(**given)
        return str(getattr(task.enqueue(*args, **kwargs), "id", ""))[:KEY_CHARS_MAX]


def _options(schedule: "Schedule") -> Iterator[tuple[str, str, Any]]:
    """What ``task.using()`` is given: by which column, as which argument, and its value."""
    if schedule.queue:
        yield "queue", "queue_name", schedule.queue
    if schedule.priority is not None:
        yield "priority", "priority", schedule.priority


def task_at(path: str) -> Any:
    """``ValidationError`` where no task is at this path."""
    task = None
    with capture() as outcome:  # its module is the project's code
        task = import_string(path)
    if outcome.error is not None:
        raise ValidationError({"target": f"target: {shown(path)}: {message_of(outcome.error)}"})
    if not callable(getattr(task, "enqueue", None)):
        text = gettext_lazy("target: %(given)s has no enqueue(): it is no task")
        raise wrong("target", text, given=shown(path))
    return task


def arguments_of(schedule: "Schedule") -> tuple[list[Any], dict[str, Any]]:
    given = schedule.arguments
    args, kwargs = (
        (given.get("args", []), given.get("kwargs", {}))
        if isinstance(given, dict)
        else (None, None)
    )
    is_whole = isinstance(given, dict) and not given.keys() - {"args", "kwargs"}
    if not is_whole or not isinstance(args, list) or not isinstance(kwargs, dict):
        text = gettext_lazy(
            'arguments of a task must be {"args": [..], "kwargs": {..}}, not %(given)s'
        )
        raise wrong("arguments", text, given=shown(given))
    return args, kwargs


def register() -> None:
    """An app of tasks may have put a better one there."""
    TARGETS.setdefault("task", TaskTarget())
