"""The fences: around user code, and around a turn of our own loops."""

import asyncio
import logging
from collections.abc import Callable

from .exceptions import DBQueueError

logger = logging.getLogger("django_dbqueue")


class Exited(DBQueueError):
    """User code tried to end the process, or was cancelled."""


def caught(work: Callable[[], object]) -> Exception | None:
    """Run user code; what it raised, or None. ``sys.exit()`` there is a failure like any other."""
    try:
        work()
    except (SystemExit, asyncio.CancelledError) as leaving:
        error = Exited(f"it raised {type(leaving).__name__}({leaving})")
        return error.with_traceback(leaving.__traceback__)
    except Exception as error:  # why: user code; whatever it raises is its outcome
        return error
    return None


def safely(turn: Callable[[], float]) -> float:
    """Do a turn of a loop that must not end: a thread that died would hold its claims."""
    answer: list[float] = []
    error = caught(lambda: answer.append(turn()))
    if error is None:
        return answer[0]
    logger.error("a turn of the worker's loop went wrong; going on in 1 s", exc_info=error)
    return 1.0
