"""Why what was moved will wait, or have a result that nobody finds."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from django.utils.translation import gettext as _

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
            text = _(
                "%(number)s are of the backend %(name)s: TASKS has no %(name)s, so that nobody "
                "finds their results"
            )
        elif not isinstance(backend, DatabaseBackend):
            text = _(
                "%(number)s are of the backend %(name)s: TASKS[%(name)s] is another backend, so "
                "that nobody finds their results"
            )
        elif backend.database != using:
            text = _(
                "%(number)s are of the backend %(name)s: TASKS[%(name)s] looks at database "
                "%(database)s, so that nobody finds their results"
            )
        else:
            continue
        database = getattr(backend, "database", None)
        yield text % {"number": count, "name": repr(alias), "database": repr(database)}


def _of_queues(queues: Counter[tuple[str, str]]) -> Iterator[str]:
    for (alias, queue), count in sorted(queues.items()):
        known = getattr(_backend(alias), "queues", None)
        if known and queue not in known:
            text = _("%(number)s wait: queue %(queue)s is none of the QUEUES of TASKS[%(name)s]")
            yield text % {"number": count, "queue": repr(queue), "name": repr(alias)}


def _of_paths(paths: Counter[str]) -> Iterator[str]:
    lost = [(path, count, find(path).problem) for path, count in sorted(paths.items())]
    text = _("%(number)s wait: %(why)s")
    found = [text % {"number": count, "why": why} for _path, count, why in lost if why]
    yield from found[:PATHS_MAX]
    if len(found) > PATHS_MAX:
        text = _("%(number)s more paths are no tasks of this code")
        yield text % {"number": len(found) - PATHS_MAX}


def _backend(alias: str) -> Any:
    try:
        return task_backends[alias]
    except InvalidTaskBackend:
        return None
