"""The process that a worker ends with: a reloader, or a web server. Needs no models."""

import os

PARENT = "_DBQUEUE_PARENT"  # the variable with its pid


def take_parent() -> int | None:
    """The pid that our parent gave us; what a job starts does not get to see it."""
    pid = os.environ.pop(PARENT, None)
    return None if pid is None else int(pid)
