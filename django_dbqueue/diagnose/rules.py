"""What no row of a queue table shows as long as nobody but the lifecycle writes it, in SQL."""

from collections.abc import Callable
from dataclasses import dataclass

from django.apps import apps

from ..conf import conf
from ..lifecycle.claim_end import MAX_COUNT, MAX_LOSSES
from ..lifecycle.enqueue import MAX_PRIORITY
from ..lifecycle.policy import MAX_CRASHES, MAX_SECONDS
from ..lifecycle.table import Table

CANCEL = "cancel() it, or correct the row by hand and look who wrote it"
KICK = "bury() and kick() it, then look who wrote it by hand"


@dataclass(frozen=True)
class IntegrityRule:
    """A condition on one row, what it says in words, and what an operator does."""

    condition: Callable[[Table], str]
    words: str
    advice: str


def patience() -> float:
    """Seconds for which a claim may be over: a reaper judges after a time without a gap."""
    return float(2 * conf["REAP_INTERVAL"] + conf["WORKER_TIMEOUT"])


def archive_of(table: Table) -> str | None:
    """The quoted name of the archive table, if there is one."""
    if table.policy.archive is None:
        return None
    meta = apps.get_model(table.policy.archive)._meta
    return table.connection.ops.quote_name(meta.db_table)


def _is_archived(table: Table) -> str:
    archive = archive_of(table)
    if archive is None:
        return "1 = 0"
    return f"EXISTS (SELECT 1 FROM {archive} kept WHERE kept.{table.pk} = {table.name}.{table.pk})"


def _is_given_again(table: Table) -> str:
    numbers = table.model._meta.auto_field is not None
    return table.dialect.is_given_again(table.name, table.pk) if numbers else "1 = 0"


def _is_to_come(table: Table) -> str:
    return f"created_at > {table.dialect.now_plus(str(patience()))}"


def _plain(sql: str) -> Callable[[Table], str]:
    return lambda _: sql


ROW = [
    IntegrityRule(
        _plain("status NOT IN (0, 1, 2, 3, 4)"),
        "has an unknown status",
        f"no worker will ever take it: {CANCEL}",
    ),
    IntegrityRule(
        _is_archived,
        "is in the archive, too",
        "compare the two rows and delete the one in this table",
    ),
    IntegrityRule(
        _plain("status = 1 AND (owner IS NULL OR owner = '')"),
        "is claimed by nobody",
        f"nobody completes it: {KICK}",
    ),
    IntegrityRule(
        _plain("status = 1 AND retry_at IS NULL"),
        "is claimed for ever",
        f"nobody reaps it: {KICK}",
    ),
    IntegrityRule(
        lambda table: f"status = 1 AND {table.dialect.is_past('retry_at', str(patience()))}",
        "is claimed, and its time was over long ago",
        "start a worker or a reaper that serves this table; if one lives, end the transaction that "
        "holds the row",
    ),
    IntegrityRule(
        lambda table: (
            "status = 3 AND retry_at IS NULL"
            + (" AND concurrency_key IS NULL" if table.takes_keys else "")
        ),
        "is delayed for ever",
        "kick() it, then look who wrote it by hand",
    ),
    IntegrityRule(
        _plain("status IN (0, 4) AND retry_at IS NOT NULL"),
        "has a retry_at, although it does not move by itself",
        "clear retry_at by hand; its state counts",
    ),
    IntegrityRule(
        _plain("status IN (0, 3, 4) AND owner IS NOT NULL"),
        "has an owner, although it is not claimed",
        "clear owner by hand: else nobody can kick or cancel it by what is shown",
    ),
    IntegrityRule(
        # Adopted rows have neither.
        _plain(
            "finished_at IS NULL AND "
            "(status = 4 OR status = 2 AND (owner IS NOT NULL OR retry_at IS NOT NULL))"
        ),
        "is finished, without finished_at",
        "set finished_at by hand: else nobody knows how old it is",
    ),
    IntegrityRule(
        _plain("finished_at IS NOT NULL AND status IN (0, 1, 3)"),
        "has a finished_at, although it is not finished",
        "clear finished_at by hand",
    ),
    IntegrityRule(
        _plain(f"attempts < 0 OR attempts >= {MAX_COUNT}"),
        "has attempts out of range",
        "set attempts to 0 by hand",
    ),
    IntegrityRule(
        _plain(f"crashes < 0 OR crashes > {MAX_CRASHES}"),
        "has crashes out of range",
        "set crashes to 0 by hand, and read its errors before",
    ),
    IntegrityRule(
        _plain(f"losses < 0 OR losses >= {MAX_LOSSES}"),
        "has losses out of range",
        "set losses to 0 by hand",
    ),
    IntegrityRule(
        _plain(f"priority < 0 OR priority > {MAX_PRIORITY}"),
        "has a priority out of range",
        f"set a priority between 0 and {MAX_PRIORITY} by hand",
    ),
    IntegrityRule(
        _plain(f"time_to_run < 1 OR time_to_run > {MAX_SECONDS}"),
        "has a time_to_run out of range: the table's own is used",
        "clear time_to_run by hand, or set it",
    ),
    IntegrityRule(
        _is_given_again,
        "has an id that will be given out again",
        "set the table's sequence above its greatest id: docs/failover.md has the SQL",
    ),
    IntegrityRule(
        _is_to_come,
        "was enqueued in the future",
        "mend this server's clock: it is behind that of the server before it (docs/failover.md)",
    ),
]
ERRORS = [
    IntegrityRule(
        _plain("LTRIM(CAST(errors AS CHAR)) NOT LIKE '[%%'"),
        "has errors that are no list",
        "set errors to [] by hand; what is there is lost with the next failure",
    )
]
