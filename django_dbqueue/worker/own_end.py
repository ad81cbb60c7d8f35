"""Jobs whose own code has ended their claims within a run: they are told of like any others."""

from typing import Any

from .. import events
from ..lifecycle.table import Table


def tell_of_own_end(table: Table, job: Any, seconds: float) -> None:
    """Of one that holds its claim no more; nothing where it was given back, or is gone."""
    end = job.own_end
    if end is None:
        return
    if end.decision is None:
        events.completed(table, [(job, seconds)])
    else:
        events.failed(table, job, end.error, seconds, end.decision, end.owner)
