"""The fences: around user code, and around a turn of our own loops."""

import asyncio
import logging
import os
import traceback
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from .current import workers_own
from .exceptions import DBQueueError

logger = logging.getLogger("django_dbqueue")
T = TypeVar("T")

LEAVING = (SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError)
THREAD_DIED = 70  # exit code of a child
UNSPEAKABLE = "<exception str() failed>"
MAX_MESSAGE_CHARS = 1000  # of an exception's words, in logs and in the errors column
NOTHING_DUE = 60.0  # seconds


class Exited(DBQueueError):
    """User code tried to end the process or its thread, or was cancelled."""


class capture:  # a context manager reads as a verb
    """A block of user code: what it raised is its outcome, ``error``, and goes no further.

    ``sys.exit()`` there is a failure like any other.
    """

    error: Exception | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if error is None:
            return False
        if isinstance(error, (Exception, *LEAVING)):
            self.error = captured(error)
        return self.error is not None


def captured(error: BaseException) -> Exception:
    """What is made of an error that user code has raised."""
    if isinstance(error, Exception):
        return error
    exited = Exited(f"it raised {type(error).__name__}({error})")
    exited.__cause__ = error
    return exited.with_traceback(error.__traceback__)


def error_of(code: Callable[[T], object], given: T) -> Exception | None:
    """The outcome of a call of user code; for the most frequent ones, since a block costs more."""
    try:
        code(given)
    except (Exception, *LEAVING) as error:  # noqa: BLE001  # why: user code
        return captured(error)
    return None


class capture_all(capture):
    """The same, of whatever is raised: also of a ``BaseException`` of somebody's own."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if error is None or super().__exit__(kind, error, trace):
            return error is not None
        self.error = Exited(f"it raised {type(error).__name__}")
        self.error.__cause__ = error
        return True


def raised(error: BaseException) -> BaseException:
    """What the code of a block has raised itself, where ``capture`` has made something of it."""
    return error.__cause__ or error if isinstance(error, Exited) else error


def _handle(record: logging.LogRecord) -> None:
    """Where a filter of the project's raises, its line goes to stderr, and we go on."""
    error = error_of(partial(type(logger).handle, logger), record)
    if isinstance(error, Exited):
        raise raised(error)
    if error is not None:
        with capture():
            try:
                raise error
            finally:  # who is asked there prints what is being raised
                logging.Handler().handleError(record)


logger.handle = _handle  # type: ignore[method-assign]


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
    with capture():
        return str(error)
    return UNSPEAKABLE


def guarded(turn: Callable[[], float | None]) -> float:
    """Do a turn of a loop that must not end, since a thread that died would hold its claims, or a
    step of one; seconds until the next."""
    wait = None
    with capture() as outcome:
        wait = turn()
    if outcome.error is not None:
        message = "a turn of the worker's loop went wrong; going on in 1 s"
        logger.error(message, exc_info=outcome.error)
        return 1.0
    return NOTHING_DUE if wait is None else wait


def exit_if_it_dies(thread: Callable[[], None]) -> None:
    """Do the work of a thread that its process cannot do without: by our own fault it may die, but
    a process that goes on without it would look alive and do nothing."""
    with workers_own():
        exit_if_it_fails(thread)


def exit_if_it_fails(step: Callable[..., object], *given: Any) -> None:
    """The same for one step: where it failed, a job would count as running for ever."""
    has_ended = False
    try:
        step(*given)
        has_ended = True
    finally:
        if not has_ended:
            try:
                traceback.print_exc()
            finally:
                os._exit(THREAD_DIED)
