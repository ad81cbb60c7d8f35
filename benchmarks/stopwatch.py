"""How long a worker's statements take, noted within its own processes."""

import os
import time
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from math import inf
from pathlib import Path
from typing import Any

from django.db import connections

VARIABLE = "BENCH_STOPWATCH"  # the file


def start() -> None:
    """Note every claim, and what is asked next to it, of this process and of those it will fork."""
    file = os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    # Imports that need a Django that is set up.
    dialects = import_module("django_dbqueue.dialects")
    archive, promotion = (
        import_module(f"django_dbqueue.lifecycle.{name}") for name in ("archive", "promotion")
    )
    timed(file, type(dialects.dialect_of(connections["default"])), "claim")
    timed(file, import_module("django_dbqueue.worker.queue_poller").TablePoller, "look")
    timed(file, promotion, "next_moves")
    timed(file, promotion, "promote")
    timed(file, archive, "archive", is_worth=bool)
    timed(file, archive, "prune", is_worth=bool)


def timed(
    file: int,
    owner: Any,
    name: str,
    label: str = "",
    is_worth: Callable[[Any], bool] = lambda _: True,
) -> None:
    """Put a function in the place of another: the same, but each call writes a line, where its
    answer is worth it."""
    work: Callable[..., Any] = getattr(owner, name)

    @wraps(work)
    def measured(*args: Any, **kwargs: Any) -> Any:
        began, answer = time.monotonic(), None
        try:
            answer = work(*args, **kwargs)
            return answer
        finally:
            ended = time.monotonic()
            if is_worth(answer):
                os.write(file, f"{label or name} {began} {ended - began}\n".encode())

    setattr(owner, name, measured)


def times(path: Path, name: str, since: float, until: float = inf) -> list[float]:
    """Milliseconds of the calls that began within a span of the clock that all processes share."""
    found = (line.split() for line in path.read_text().splitlines())
    return [
        float(seconds) * 1000
        for called, began, seconds in found
        if called == name and since <= float(began) < until
    ]
