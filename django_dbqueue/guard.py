"""The fences: around user code, and around a turn of our own loops."""

import asyncio
import logging
import os
import traceback
from collections.abc import Callable
from functools import partial

from .current import workers_own
from .exceptions import DBQueueError

logger = logging.getLogger("django_dbqueue")

LEAVING = (SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError)
THREAD_DIED = 70  # exit code of a child
UNSPEAKABLE = "<exception str() failed>"
MAX_MESSAGE_CHARS = 1000  # of an exception's words, in logs and in the errors column
NOTHING_DUE = 60.0  # seconds


def _handle(record: logging.LogRecord) -> None:
    """Where a filter of the project's raises, its line goes to stderr, and we go on."""
    try:
        type(logger).handle(logger, record)
    except Exception:  # noqa: BLE001  # why: user code
        caught(partial(logging.Handler().handleError, record))


logger.handle = _handle  # type: ignore[method-assign]


class Exited(DBQueueError):
    """User code tried to end the process or its thread, or was cancelled."""


def clean(text: str) -> str:
    """Text that every database stores: no NUL, no half of a surrogate pair."""
    return text.replace("\0", "\\0").encode(errors="backslashreplace").decode()


def message_of(error: BaseException) -> str:
    """Its own words, even where its ``__str__`` fails; of very many the first ones."""
    text = words_of(error)
    if len(text) > MAX_MESSAGE_CHARS:
        text = f"{text[:MAX_MESSAGE_CHARS]}.. ({len(text):,} characters)"
    return clean(text)


def words_of(error: BaseException) -> str:
    words: list[str] = []
    has_failed = caught(lambda: words.append(str(error)))
    return UNSPEAKABLE if has_failed else words[0]


def caught(work: Callable[[], object]) -> Exception | None:
    """Run user code; what it raised, or None. ``sys.exit()`` there is a failure like any other."""
    try:
        work()
    except Exception as error:  # noqa: BLE001  # why: user code; whatever it raises is its outcome
        return error
    except LEAVING as leaving:
        exited = Exited(f"it raised {type(leaving).__name__}({leaving})")
        return exited.with_traceback(leaving.__traceback__)
    return None


def safely(turn: Callable[[], float | None]) -> float:
    """Do a turn of a loop that must not end, since a thread that died would hold its claims, or a
    step of one; seconds until the next."""
    answer: list[float | None] = []
    error = caught(lambda: answer.append(turn()))
    if error is None:
        return NOTHING_DUE if answer[0] is None else answer[0]
    logger.error("a turn of the worker's loop went wrong; going on in 1 s", exc_info=error)
    return 1.0


def whole(thread: Callable[[], None]) -> None:
    """Do the work of a thread that its process cannot do without: by our own fault it may die, but
    a process that goes on without it would look alive and do nothing."""
    has_ended = False
    try:
        with workers_own():
            thread()
        has_ended = True
    finally:
        if not has_ended:
            try:
                traceback.print_exc()
            finally:
                os._exit(THREAD_DIED)
