"""How a job leaves its owner: the columns that every end of a claim sets."""

from ..states import Status
from .table import Table
from .verdict import Verdict

# A column edited by hand must not make the statement fail.
ONE_LESS = "CASE WHEN attempts > 0 THEN attempts - 1 ELSE 0 END"


def freed(table: Table, verdict: Verdict) -> tuple[str, list[float]]:
    """The assignments and their parameters; buried jobs free their ``dedup_key``."""
    sets = f"status = {verdict.status:d}, owner = NULL, dequeued_time = NULL, retry_at = "
    if verdict.is_buried:
        return f"{sets}NULL, dedup_key = NULL, finished_at = {table.dialect.now}", []
    if verdict.status is Status.DELAYED:
        return f"{sets}{table.dialect.now_plus('%s')}", [verdict.delay]
    return f"{sets}NULL", []
