"""Why what was moved will wait, or have a result that nobody finds."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from ..backends import DatabaseBackend
from ..compat import InvalidTaskBackend, task_backends
from ..lookup import find

PATHS_MAX = 20


def hints(moved: Counter[tuple[str, str, str]], using: str) -> Iterator[str]:
    """``moved``: how many there are of each backend, queue and path."""
    backends, queues, paths = Counter[str](), Counter[tuple[str, str]](), Counter[str]()
    for (backend, queue, path), count in moved.items():
        backends[backend] += count
        queues[backend, queue] += count
        paths[path] += count
    yield from _of_backends(backends, using)
    yield from _of_queues(queues)
    yield from _of_paths(paths)


def _of_backends(backends: Counter[str], using: str) -> Iterator[str]:
    for alias, count in sorted(backends.items()):
        backend = _backend(alias)
        if backend is None:
            problem = f"TASKS has no {alias!r}"
        elif not isinstance(backend, DatabaseBackend):
            problem = f"TASKS[{alias!r}] is another backend"
        elif backend.database != using:
            problem = f"TASKS[{alias!r}] looks at database {backend.database!r}"
        else:
            continue
        yield f"{count} are of the backend {alias!r}: {problem}, so that nobody finds their results"


def _of_queues(queues: Counter[tuple[str, str]]) -> Iterator[str]:
    for (alias, queue), count in sorted(queues.items()):
        known = getattr(_backend(alias), "queues", None)
        if known and queue not in known:
            yield f"{count} wait: queue {queue!r} is none of the QUEUES of TASKS[{alias!r}]"


def _of_paths(paths: Counter[str]) -> Iterator[str]:
    lost = [(path, count, find(path).problem) for path, count in sorted(paths.items())]
    found = [f"{count} wait: {problem}" for _, count, problem in lost if problem]
    yield from found[:PATHS_MAX]
    if len(found) > PATHS_MAX:
        yield f"{len(found) - PATHS_MAX} more paths are no tasks of this code"


def _backend(alias: str) -> Any:
    try:
        return task_backends[alias]
    except InvalidTaskBackend:
        return None
