"""The fence around user code."""

import asyncio
from collections.abc import Callable

from ..exceptions import DBQueueError


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
