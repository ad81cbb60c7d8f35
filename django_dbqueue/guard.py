"""The fences: around user code, and around a turn of our own loops."""

import logging
from collections.abc import Callable
from traceback import TracebackException

from .exceptions import DBQueueError

logger = logging.getLogger("django_dbqueue")


class Exited(DBQueueError):
    """User code tried to end the process or its thread, or was cancelled."""


def clean(text: str) -> str:
    """Text that every database stores: no NUL, no half of a surrogate pair."""
    return text.replace("\0", "\\0").encode(errors="backslashreplace").decode()


def message_of(error: BaseException) -> str:
    """Its own words, even where its ``__str__`` fails."""
    return clean(str(TracebackException.from_exception(error, limit=0)))


def caught(work: Callable[[], object]) -> Exception | None:
    """Run user code; what it raised, or None. ``sys.exit()`` there is a failure like any other."""
    try:
        work()
    except Exception as error:  # why: user code; whatever it raises is its outcome
        return error
    except BaseException as leaving:  # why: no job ends our thread
        exited = Exited(f"it raised {type(leaving).__name__}({leaving})")
        return exited.with_traceback(leaving.__traceback__)
    return None


def safely(turn: Callable[[], float]) -> float:
    """Do a turn of a loop that must not end: a thread that died would hold its claims."""
    answer: list[float] = []
    error = caught(lambda: answer.append(turn()))
    if error is None:
        return answer[0]
    logger.error("a turn of the worker's loop went wrong; going on in 1 s", exc_info=error)
    return 1.0
