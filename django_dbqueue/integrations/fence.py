"""The fence around another system's code: what goes wrong there is no job's failure."""

import logging
from collections.abc import Callable

from ..events import End
from ..guard import capture, message_of

logger = logging.getLogger("django_dbqueue")


def fenced(name: str, begin: Callable[[], End]) -> End:
    """Begin, and what ends it; errors of either are logged with the system's name."""
    finish: End = nothing
    with capture() as start:
        finish = begin()
    if start.error is not None:
        logger.warning("%s could not be told of a job: %s", name, message_of(start.error))

    def end(error: BaseException | None) -> None:
        with capture() as outcome:
            finish(error)
        if outcome.error is not None:
            logger.warning("%s could not be told of a job: %s", name, message_of(outcome.error))

    return end


def nothing(_: BaseException | None) -> None:
    """Nothing was begun."""
