"""What no row of a queue table shows as long as nobody but the lifecycle writes it, in SQL."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from django.apps import apps
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from ..conf import conf
from ..lifecycle.claim_end import MAX_COUNT, MAX_LOSSES
from ..lifecycle.enqueue import MAX_PRIORITY
from ..lifecycle.policy import MAX_CRASHES, MAX_SECONDS
from ..lifecycle.table import Table


@dataclass(frozen=True)
class IntegrityRule:
    """A condition on one row, what it says in words, and what an operator does."""

    condition: Callable[[Table], str]
    text: str
    what_to_do: str
    values: Mapping[str, int] = field(default_factory=dict)

    @property
    def words(self) -> str:
        return _(self.text)

    @property
    def advice(self) -> str:
        """In the language that is active."""
        return _(self.what_to_do) % self.values


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
        gettext_noop("has an unknown status"),
        gettext_noop(
            "no worker will ever take it: cancel() it, or correct the row by hand and look who "
            "wrote it"
        ),
    ),
    IntegrityRule(
        _is_archived,
        gettext_noop("is in the archive, too"),
        gettext_noop("compare the two rows and delete the one in this table"),
    ),
    IntegrityRule(
        _plain("status = 1 AND (owner IS NULL OR owner = '')"),
        gettext_noop("is claimed by nobody"),
        gettext_noop("nobody completes it: bury() and kick() it, then look who wrote it by hand"),
    ),
    IntegrityRule(
        _plain("status = 1 AND retry_at IS NULL"),
        gettext_noop("is claimed for ever"),
        gettext_noop("nobody reaps it: bury() and kick() it, then look who wrote it by hand"),
    ),
    IntegrityRule(
        lambda table: f"status = 1 AND {table.dialect.is_past('retry_at', str(patience()))}",
        gettext_noop("is claimed, and its time was over long ago"),
        gettext_noop(
            "start a worker or a reaper that serves this table; if one lives, end the transaction "
            "that holds the row"
        ),
    ),
    IntegrityRule(
        lambda table: (
            "status = 3 AND retry_at IS NULL"
            + (" AND concurrency_key IS NULL" if table.takes_keys else "")
        ),
        gettext_noop("is delayed for ever"),
        gettext_noop("kick() it, then look who wrote it by hand"),
    ),
    IntegrityRule(
        _plain("status IN (0, 4) AND retry_at IS NOT NULL"),
        gettext_noop("has a retry_at, although it does not move by itself"),
        gettext_noop("clear retry_at by hand; its state counts"),
    ),
    IntegrityRule(
        _plain("status IN (0, 3, 4) AND owner IS NOT NULL"),
        gettext_noop("has an owner, although it is not claimed"),
        gettext_noop("clear owner by hand: else nobody can kick or cancel it by what is shown"),
    ),
    IntegrityRule(
        # Adopted rows have neither.
        _plain(
            "finished_at IS NULL AND "
            "(status = 4 OR status = 2 AND (owner IS NOT NULL OR retry_at IS NOT NULL))"
        ),
        gettext_noop("is finished, without finished_at"),
        gettext_noop("set finished_at by hand: else nobody knows how old it is"),
    ),
    IntegrityRule(
        _plain("finished_at IS NOT NULL AND status IN (0, 1, 3)"),
        gettext_noop("has a finished_at, although it is not finished"),
        gettext_noop("clear finished_at by hand"),
    ),
    IntegrityRule(
        _plain(f"attempts < 0 OR attempts >= {MAX_COUNT}"),
        gettext_noop("has attempts out of range"),
        gettext_noop("set attempts to 0 by hand"),
    ),
    IntegrityRule(
        _plain(f"crashes < 0 OR crashes > {MAX_CRASHES}"),
        gettext_noop("has crashes out of range"),
        gettext_noop("set crashes to 0 by hand, and read its errors before"),
    ),
    IntegrityRule(
        _plain(f"losses < 0 OR losses >= {MAX_LOSSES}"),
        gettext_noop("has losses out of range"),
        gettext_noop("set losses to 0 by hand"),
    ),
    IntegrityRule(
        _plain(f"priority < 0 OR priority > {MAX_PRIORITY}"),
        gettext_noop("has a priority out of range"),
        gettext_noop("set a priority between 0 and %(most)s by hand"),
        {"most": MAX_PRIORITY},
    ),
    IntegrityRule(
        _plain(f"time_to_run < 1 OR time_to_run > {MAX_SECONDS}"),
        gettext_noop("has a time_to_run out of range: the table's own is used"),
        gettext_noop("clear time_to_run by hand, or set it"),
    ),
    IntegrityRule(
        _is_given_again,
        gettext_noop("has an id that will be given out again"),
        gettext_noop(
            "set the table's sequence above its greatest id: docs/failover.md has the SQL"
        ),
    ),
    IntegrityRule(
        _is_to_come,
        gettext_noop("was enqueued in the future"),
        gettext_noop(
            "mend this server's clock: it is behind that of the server before it (docs/failover.md)"
        ),
    ),
]
ERRORS = [
    IntegrityRule(
        _plain("LTRIM(CAST(errors AS CHAR)) NOT LIKE '[%%'"),
        gettext_noop("has errors that are no list"),
        gettext_noop("set errors to [] by hand; what is there is lost with the next failure"),
    )
]
