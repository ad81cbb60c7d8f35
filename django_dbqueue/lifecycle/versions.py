"""Jobs that need newer code than this: put off, charged with nothing, until it is there."""

import logging
from collections.abc import Sequence
from typing import Any

from ..conf import code_version
from . import holder
from .execute import placeholders, rows
from .table import Table

logger = logging.getLogger("django_dbqueue")

# A queue table's own column by this name says the lowest CODE_VERSION that may run a job.
MIN_VERSION = "min_version"
WAITS = 10.0, 300.0  # seconds that a job is put off at least, and at most
SHARE = 0.5  # of the time since the youngest of them was enqueued
ROUNDS_MAX = 20  # claims in a row that took nothing but jobs for newer code


def has_versions(table: Table) -> bool:
    return MIN_VERSION in table.model._meta._forward_fields_map


def hold_back(table: Table, owner: str, jobs: Sequence[Any]) -> list[Any]:
    """Put off those of the jobs of one claim that need newer code; the others.

    They wait the longer the longer they have waited, so that many of them are no load.
    """
    version = code_version()
    held = [job for job in jobs if needs(job) > version]
    if not held:
        return list(jobs)
    keys = [job.claim_key for job in held]
    seconds = min(max(WAITS[0], SHARE * _age(table, keys)), WAITS[1])
    holder.release(table, owner, keys, seconds)
    message = "%s: %d jobs need newer code than version %d: put off for %.0f s"
    logger.debug(message, table.label, len(held), version, seconds)
    return [job for job in jobs if job not in held]


def needs(job: Any) -> int:
    """The version that a job needs; 0 where a hand wrote what is no number."""
    asked = getattr(job, MIN_VERSION, 0)
    return asked if isinstance(asked, int) else 0


def _age(table: Table, keys: Sequence[Any]) -> float:
    """Seconds since the youngest of them was enqueued."""
    [(age,)] = rows(
        table.connection,
        f"SELECT MIN(-{table.dialect.seconds_until('created_at')}) FROM {table.by_key} "
        f"WHERE {table.pk} IN ({placeholders(keys)})",
        keys,
    )
    return 0.0 if age is None else float(age)
