"""Looks for rows that should not be, without touching one: cheap enough for production.

Every look is bounded. Claims, and what moves by itself, are found by index; what no index leads to
among the oldest and the newest 10,000 rows of a table, by key.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import Error
from django.utils.translation import gettext as _

from ..adopt.renamed_tables import ADVICE, strays
from ..conf import conf
from ..dialects import dialect_of
from ..exceptions import first_line
from ..lifecycle.execute import rows
from ..lifecycle.policy import policy_of
from ..lifecycle.table import Table, table_of
from ..models import Worker
from ..monitor.worker_list import with_ages
from ..worker.served import Served, all_served
from .after_failover import BEAT_TO_COME, beats_to_come, receipt_findings, told
from .facts import OWNER
from .odd_rows import Broken, Row, misnamed, twins_among
from .rules import ERRORS, ROW, IntegrityRule, archive_of, patience

ROWS_MAX = 10_000  # by key, from either end, and by each index
ERRORS_MAX = 1_000  # rows whose errors are looked at: they are expensive to read
KEYS_MAX = 500  # in one statement
RECHECK_SECONDS = 1.0  # after the first look, at least


@dataclass(frozen=True)
class Violation:
    """One row, what is wrong with it, and what to do about it."""

    database: str
    table: str
    id: str
    queue: str
    owner: str | None
    what: str
    advice: str


@dataclass(frozen=True)
class Unchecked:
    """A database, or a table on it, that could not be read, and why."""

    database: str
    table: str | None
    why: str


@dataclass
class CheckResult:
    """``more`` counts nothing: it names what there is more of than was asked for."""

    tables: int = 0
    findings: list[Violation] = field(default_factory=list)
    more: list[str] = field(default_factory=list)
    unchecked: list[Unchecked] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not self.findings and not self.unchecked


def check_integrity(using: str | None = None, shown: int = 20) -> CheckResult:
    """Examine the queue tables of one database, or of all; at most ``shown`` rows of a kind.

    What was found is looked at again a moment later: what moved on by then was work. A table that
    cannot be read is named, and the others are examined all the same.
    """
    found = CheckResult()
    by_alias: dict[str, list[Served]] = defaultdict(list)
    for served in all_served(using):
        by_alias[served.using].append(served)
        effects = policy_of(served.model).exactly_once
        if using is None and isinstance(effects, str) and effects in connections:
            by_alias[effects] += []  # for its receipts
    for alias, here in sorted(by_alias.items()):
        if why := _unreachable(alias):
            found.unchecked.append(Unchecked(alias, None, why))
            continue
        try:
            for served in here:
                _check_table(served, shown, found)
        finally:
            _check_stray_names(alias, found)
            _check_beats(alias, found)
            if _is_free(connections[alias]):
                # What was set for us would have the caller give up on locks, too.
                connections[alias].close()
    return found


def _check_stray_names(using: str, found: CheckResult) -> None:
    try:
        for table, name, what in strays(using):
            found.findings.append(
                Violation(using, table, name, "", None, *told((what, ADVICE[what])))
            )
    except Error as error:
        found.unchecked.append(Unchecked(using, None, first_line(error)))


def _check_beats(using: str, found: CheckResult) -> None:
    # Where there are receipts alone, no worker has a row; what else is amiss its tables have told.
    with suppress(Error):
        for uuid in beats_to_come(using):
            label = Worker._meta.label_lower
            found.findings.append(Violation(using, label, uuid, "", None, *told(BEAT_TO_COME)))


def _unreachable(alias: str) -> str:
    """Why a database cannot be asked, or ''."""
    try:
        with connections[alias].cursor() as cursor:
            if _is_free(connections[alias]):
                # A lock that somebody keeps on a table is not to be waited for.
                cursor.execute(dialect_of(connections[alias]).own_session())
    except (Error, ImproperlyConfigured, ImportError) as error:  # the last two: no driver
        return first_line(error)
    return ""


def _is_free(connection: BaseDatabaseWrapper) -> bool:
    """Whether no transaction of the caller's is open."""
    return not connection.in_atomic_block and connection.get_autocommit()


def _check_table(served: Served, shown: int, found: CheckResult) -> None:
    try:
        table = table_of(served.model, served.using)
        confirmed = IntegrityCheck(table, shown).confirmed()
        receipts = list(receipt_findings(table))
    except Error as error:
        found.unchecked.append(Unchecked(served.using, served.label, first_line(error)))
        return
    found.tables += 1
    counts: Counter[str] = Counter()
    for row, what, advice in confirmed:
        counts[what] += 1
        if counts[what] > shown:
            continue
        owner = None if row.owner is None else _text(row.owner)
        where = served.using, table.label, str(row.key), _text(row.queue), owner
        found.findings.append(Violation(*where, what, advice))
    for key, what, advice in receipts:
        counts[what] += 1
        if counts[what] <= shown:
            where = served.using, table.label, key, "", None
            found.findings.append(Violation(*where, what, advice))
    text = _("%(row)s %(what)s")
    found.more += [
        text % {"row": table.label, "what": what} for what, count in counts.items() if count > shown
    ]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


class IntegrityCheck:
    """Of one table on one database."""

    def __init__(self, table: Table, shown: int) -> None:
        self.table = table
        self.shown = shown

    def confirmed(self) -> list[Broken]:
        """What is found twice: by key and owner, with the same words."""
        first, counts = [], Counter[str]()
        for row, what, advice in self._broken(self._sources()):
            counts[what] += 1
            # Two more than are to be shown: there are more, then, even if the last one is confirmed
            # by nothing since its twin was cut off.
            if counts[what] <= self.shown + 2:
                first.append((row, what, advice))
        if not first:
            return []
        # As long as it takes a reaper to come by.
        Event().wait(max(RECHECK_SECONDS, conf["REAP_INTERVAL"]))
        again = self._broken(self._by_key(sorted({row.key for row, _, _ in first}, key=str)))
        still = {(row.key, row.owner, what) for row, what, _ in again}
        return [one for one in first if (one[0].key, one[0].owner, one[1]) in still]

    def _broken(self, looks: Iterable[tuple[list[IntegrityRule], list[Row]]]) -> Iterator[Broken]:
        """Each row with all that is wrong with it, once."""
        seen: dict[Any, Row] = {}
        told: set[tuple[Any, str]] = set()
        for rules, found in looks:
            for row in found:
                if row.rule is not None:
                    broken = rules[row.rule]
                    if (row.key, broken.words) not in told:
                        told.add((row.key, broken.words))
                        yield row, broken.words, broken.advice
                if rules is ROW:
                    seen.setdefault(row.key, row)
        for row in seen.values():
            yield from misnamed(row)
        yield from twins_among(seen.values())
        yield from self._abandoned([row for row in seen.values() if row.status == 1])

    def _sources(self) -> Iterator[tuple[list[IntegrityRule], list[Row]]]:
        t = self.table
        for order in ("", " DESC"):
            end = f"FROM {t.by_key} ORDER BY {t.pk}{order}"
            yield ROW, self._rows(ROW, f"{end} LIMIT {ROWS_MAX}")
            yield ERRORS, self._rows(ERRORS, f"{end} LIMIT {ERRORS_MAX}")
        for status in (1, 0, 4):
            moves = f"FROM {t.name} WHERE status = {status} AND retry_at IS NOT NULL"
            yield ROW, self._rows(ROW, f"{moves} ORDER BY retry_at LIMIT {ROWS_MAX}")
        if archive := archive_of(t):
            finished = f"FROM {archive} WHERE finished_at IS NOT NULL"
            newest = f"SELECT {t.pk} {finished} ORDER BY finished_at DESC LIMIT {ROWS_MAX}"
            among = f"SELECT {t.pk} FROM ({newest}) newest"
            yield ROW, self._rows(ROW, f"FROM {t.name} WHERE {t.pk} IN ({among})")

    def _by_key(self, keys: Sequence[Any]) -> Iterator[tuple[list[IntegrityRule], list[Row]]]:
        for rules in (ROW, ERRORS):
            found: list[Row] = []
            for start in range(0, len(keys), KEYS_MAX):
                some = keys[start : start + KEYS_MAX]
                among, these = self.table.dialect.among(self.table.pk, some)
                found += self._rows(rules, f"FROM {self.table.by_key} WHERE {among}", these)
            yield rules, found

    def _rows(
        self, rules: list[IntegrityRule], source: str, params: Sequence[Any] = ()
    ) -> list[Row]:
        cases = " ".join(
            f"WHEN {rule.condition(self.table)} THEN {number}" for number, rule in enumerate(rules)
        )
        columns = f"{self.table.pk}, queue, status, owner, dedup_key, CASE {cases} END"
        found = rows(self.table.connection, f"SELECT {columns} {source}", params)
        return [Row(*one) for one in found]

    def _abandoned(self, claimed: list[Row]) -> Iterator[Broken]:
        """Claims of workers, and of servers of tubes, that are gone. Those of no worker are judged
        by their time alone."""
        by_worker: dict[str, list[Row]] = defaultdict(list)
        states: dict[str, str] = {}
        unknown = _("is claimed by a worker that is not known")
        for row in claimed:
            if match := OWNER.fullmatch(_text(row.owner)):
                by_worker[match[1]].append(row)
                states[match[1]] = unknown if match[2] else ""
        uuids = sorted(by_worker)
        for start in range(0, len(uuids), KEYS_MAX):
            workers = Worker.objects.using(self.table.connection.alias)
            for worker in with_ages(workers.filter(uuid__in=uuids[start : start + KEYS_MAX])):
                if worker.stopped_at is not None:
                    states[worker.uuid] = _("is claimed by a worker that has stopped")
                else:
                    is_silent = worker.beat_age is None or worker.beat_age > patience()
                    silent = _("is claimed by a worker that has not beaten for long")
                    states[worker.uuid] = silent if is_silent else ""
        advice = _("start a worker that serves this table")
        for uuid, held in by_worker.items():
            if what := states[uuid]:
                yield from ((row, what, advice) for row in held)
