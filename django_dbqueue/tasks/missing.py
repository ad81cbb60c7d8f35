"""Tasks whose code is not here: for how long they wait, and what the log says of them."""

import logging
import time
from typing import Any

from ..lifecycle import process_clock

logger = logging.getLogger("django_dbqueue")

WAITS = 10.0, 3600.0  # seconds at least, and at most
SHARE = 0.5  # of the time since it was due first
SAID_SECONDS = 60.0  # between two warnings of the same path
PATHS_MAX = 1000  # that are remembered

_said: dict[str, float] = {}  # by path, when


def pause(row: Any) -> float:
    """Longer each time, so that rows of a removed task are no load."""
    due = max((moment for moment in (row.created_at, row.run_after) if moment), default=None)
    waited = (process_clock.now() - due).total_seconds() if due else 0.0
    return min(max(WAITS[0], SHARE * waited), WAITS[1])


def warn(row: Any) -> None:
    """Once a minute of each path, in each process."""
    now, path = time.monotonic(), row.task_path
    if now - _said.get(path, float("-inf")) < SAID_SECONDS:
        return
    if len(_said) >= PATHS_MAX:
        _said.clear()
    _said[path] = now
    logger.warning("%s waits for code that has it: %s", row, row.found.problem)
