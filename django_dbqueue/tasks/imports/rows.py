"""From a row of another backend to one of ours."""

import json
from collections.abc import Container
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from ...guard import capture, message_of
from ...lifecycle.enqueue import CHECKS
from ..lookup import find
from ..models import AsyncTask, Task, TaskRow
from ..queued_task import DEFAULTS, is_for_event_loop, option

# Texts without a check of their own.
TEXTS: list[Any] = [Task._meta.get_field(name) for name in ("task_path", "backend")]
# django-tasks-db has the year 9999, in some time zone, where a task may run at once.
NEVER = 9998


class Refused(ValueError):
    """This row cannot be taken over, and why."""


class Converter:
    """Makes rows of ours; the options of each task are those that this code gives it now."""

    def __init__(self) -> None:
        self._options: dict[str, dict[str, Any]] = {}
        self._models: dict[str, type[TaskRow]] = {}

    def row(self, given: Any, taken: Container[UUID] = ()) -> dict[str, Any]:
        """What is written; ``Refused`` names what is wrong with the given one. ``taken``: ids that
        tasks here have."""
        if given.pk in taken:
            raise Refused(_("a task with this id is here already"))
        args, kwargs = _arguments(given.payload)
        due = given.run_after
        if due is not None and due.year >= NEVER:
            due = None
        call = SimpleNamespace(
            **self._options_of(given.task_path),
            module_path=given.task_path,
            queue_name=given.queue_name,
            priority=given.priority,
            run_after=due,
        )
        columns: dict[str, Any] = {}
        with capture() as making:  # a concurrency key may be worked out by the project's code
            columns = Task.columns_of(call, given.backend_name, args, kwargs)
            _check(columns)
        if making.error is not None:
            raise Refused(_problem(making.error)) from making.error
        return columns | {"result_id": given.pk, "created_at": given.enqueued_at}

    def model(self, row: dict[str, Any]) -> type[TaskRow]:
        """The table that a row is for: this code says now whether its function is a coroutine. What
        it has not is called in a thread, whatever it is by then."""
        path = row["task_path"]
        if path not in self._models:
            task = find(path).task
            is_async = task is not None and is_for_event_loop(task)
            self._models[path] = AsyncTask if is_async else Task
        return self._models[path]

    def _options_of(self, path: str) -> dict[str, Any]:
        if path not in self._options:
            task = find(path).task
            # What waits there waits there twice, if it does: a key would drop one of them.
            known = {name: option(task, name) for name in DEFAULTS} | {"dedup_key": None}
            # By these a concurrency key is given the arguments.
            known |= {name: getattr(task, name, None) for name in ("func", "takes_context")}
            self._options[path] = known
        return self._options[path]


def _problem(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return " ".join(error.messages)
    words = message_of(error)
    is_ours = isinstance(error, (TypeError, ValueError))
    return words if is_ours else f"{type(error).__name__}: {words}"


def _check(columns: dict[str, Any]) -> None:
    """``ValidationError`` names the column and its limit."""
    for name, check in CHECKS.items():
        if name in columns:
            check(columns[name])
    for text in TEXTS:
        try:
            text.clean(columns[text.name], None)
        except ValidationError as error:
            raise ValidationError(f"{text.name}: {' '.join(error.messages)}") from error


def _arguments(payload: Any) -> tuple[list[Any], dict[str, Any]]:
    try:
        found = json.loads(payload) if isinstance(payload, str | bytes) else payload
    except (ValueError, RecursionError) as error:
        raise Refused(_("its arguments are no JSON: %(why)s") % {"why": error}) from None
    args = found.get("args", []) if isinstance(found, dict) else None
    kwargs = found.get("kwargs", {}) if isinstance(found, dict) else None
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise Refused(_('its arguments are not {"args": [...], "kwargs": {...}}'))
    return args, kwargs
