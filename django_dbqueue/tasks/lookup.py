"""From a stored path to the task of this code."""

import sys
from typing import Any, NamedTuple

from django.utils.module_loading import import_string

from ..guard import capture, message_of
from ..lifecycle.limiter import SEPARATOR
from .compat import InvalidTaskBackend, Task, task_backends


class Found(NamedTuple):
    """The task, or why this code cannot run it."""

    task: Any
    problem: str = ""


def find(path: str) -> Found:
    """The task of a path; whatever its module raises is a problem like others."""
    task = None
    with capture() as look:  # importing is user code
        task = import_string(path)
    if look.error is not None:
        why = f"{type(look.error).__name__}: {message_of(look.error)}"
        return Found(None, f"{path} cannot be imported: {why}")
    if not isinstance(task, Task):
        return Found(None, f"{path} is no task")
    return Found(task)


_known = set[str]()  # paths of tasks


def why_lost(path: str) -> str:
    """Why no worker would find the task of this path, or ''. It is looked up until it is found."""
    if path in _known:
        return ""
    problem = find(path).problem
    if path.startswith("__main__.") and not hasattr(sys.modules["__main__"], "__file__"):
        problem = f"{path} is in the shell of this process alone"
    if not problem:
        _known.add(path)
    return problem


def look_up(path: str, backend: str, queue: str) -> Found:
    """The task that a row names, if it may be run."""
    try:
        queues = task_backends[backend].queues
    except InvalidTaskBackend:
        return Found(None, f"TASKS has no backend {backend!r} any more")
    # It may be a lane of the time before its queue had no rate any more.
    if queues and not {queue, queue.partition(SEPARATOR)[0]} & set(queues):
        return Found(None, f"queue {queue!r} is none of the QUEUES of TASKS[{backend!r}] any more")
    return find(path)
