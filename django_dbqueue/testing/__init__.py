"""For tests of projects that have queue tables: a worker in the test's own process, a clock, and
words for what a test expects of jobs.

It imports what is asked for, since pytest imports its plugin before there are any settings.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .clock import Clock, virtual_clock
    from .enqueued import captured_jobs
    from .inline import InlineWorker
    from .mixin import JobTestMixin
    from .transactions import hidden_transaction

__all__ = [
    "Clock",
    "InlineWorker",
    "JobTestMixin",
    "captured_jobs",
    "hidden_transaction",
    "virtual_clock",
]
_PLACES = {
    "Clock": "clock",
    "InlineWorker": "inline",
    "JobTestMixin": "mixin",
    "captured_jobs": "enqueued",
    "hidden_transaction": "transactions",
    "virtual_clock": "clock",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
