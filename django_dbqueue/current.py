"""Whether this thread runs a job, and which, or does a worker's own work."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

# Its ``job`` is set by ``running``, and by runners themselves, since a block takes longer.
here = threading.local()
_of_coroutine: ContextVar[Any] = ContextVar("dbqueue_job", default=None)


def current_job() -> Any:
    """The job that this thread of a worker, or this coroutine, runs or is recording the end of.

    None outside of jobs; of a batch, the first.
    """
    job = getattr(here, "job", None)
    return _of_coroutine.get() if job is None else job


class running:
    """While this lasts, the thread runs this job."""

    def __init__(self, job: Any) -> None:
        self.job = job

    def __enter__(self) -> None:
        here.job = self.job

    def __exit__(self, *_: object) -> None:
        here.job = None


def run_as_coroutine(job: Any) -> None:
    """From here on, whatever has this context runs this job."""
    _of_coroutine.set(job)


@contextmanager
def running_coroutine(job: Any) -> Iterator[None]:
    """While this lasts, this coroutine, and what it calls in other threads, runs this job."""
    token = _of_coroutine.set(job)
    try:
        yield
    finally:
        _of_coroutine.reset(token)


def is_workers_own() -> bool:
    """Whether this is a thread of a worker that runs no job now."""
    return current_job() is None and getattr(here, "is_workers_own", False)


@contextmanager
def workers_own() -> Iterator[None]:
    """While this lasts, the thread does a worker's own work."""
    here.is_workers_own = True
    try:
        yield
    finally:
        here.is_workers_own = False


# Holds something where this process was forked by a job's own code. Asked for every job: no call.
forked_by: list[Any] = []


def _note_fork() -> None:
    if (job := current_job()) is not None:
        forked_by.append(job)


os.register_at_fork(after_in_child=_note_fork)
