"""The job that this thread runs."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_here = threading.local()


def current_job() -> Any:
    """The job that this thread of a worker runs or is recording the end of; None outside of jobs.

    Of a batch, the first.
    """
    return getattr(_here, "job", None)


@contextmanager
def running(job: Any) -> Iterator[None]:
    """While this lasts, the thread runs this job."""
    _here.job = job
    try:
        yield
    finally:
        _here.job = None
