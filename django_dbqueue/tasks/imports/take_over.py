"""One transaction that moves what waits elsewhere into the table of tasks."""

from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import connections, transaction
from django.db.models import Count
from django.utils.translation import gettext as _

from ..models import AsyncTask, Task, TaskRow
from .hints import hints
from .rows import Converter, Refused
from .sources import WAITING, Source
from .tables import MissingTable

TABLES: tuple[type[TaskRow], ...] = (Task, AsyncTask)
# Rows may have a megabyte of arguments each.
BATCH = 100
INSERT_BYTES = 4 << 20  # of arguments in one statement, which servers limit
KEY_BYTES = 16
NAMED_MAX = 1000


class NotRemoved(ValueError):
    """What was inserted could not be deleted where it was: nothing is moved."""


@dataclass
class Report:
    """What was moved, and what was not; ``refused`` holds the first of them with the reasons."""

    source: type[Source]
    moved: int = 0
    due_later: int = 0
    left: dict[str, int] = field(default_factory=dict)
    refused_count: int = 0
    refused: list[tuple[UUID, str]] = field(default_factory=list)
    taken: int = 0  # by a worker there, since the transaction began
    kinds: Counter[tuple[str, str, str]] = field(default_factory=Counter)  # what was moved
    notes: list[str] = field(default_factory=list)

    def refuse(self, key: UUID, reason: str) -> None:
        self.refused_count += 1
        if len(self.refused) < NAMED_MAX:
            self.refused.append((key, reason))


def take_over(kind: type[Source], using: str, *, dry_run: bool) -> Report:
    """Move all that waits, or on an error nothing. ``MissingTable`` where a table is not in this
    database. With ``dry_run`` nothing is locked or written."""
    with connections[using].cursor() as cursor:
        if Task._meta.db_table not in connections[using].introspection.table_names(cursor):
            text = _(
                "database %(database)s has no table %(table)s: migrate, or name another alias with "
                "--database"
            )
            raise MissingTable(text % {"database": repr(using), "table": Task._meta.db_table})
    report, source, converter = Report(kind), kind(using), Converter()
    with nullcontext() if dry_run else transaction.atomic(using=using):
        keys = _waiting(source)
        for batch in _batches(keys):
            _move(source, batch, converter, report, dry_run=dry_run)
        states = source.jobs().order_by().values_list("state").annotate(Count("pk"))
        report.left = {state: count for state, count in states if state != WAITING}
        report.notes = [*source.notes(), *hints(report.kinds, using)]
    return report


def _waiting(source: Source) -> bytearray:
    """The keys of what waits, the oldest first, each as its bytes: a million take 16 MB."""
    found = source.jobs().filter(state=WAITING).order_by("enqueued_at", "pk")
    keys = bytearray()
    for key in found.values_list("pk", flat=True).iterator(chunk_size=10_000):
        keys += key.bytes
    return keys


def _batches(keys: bytearray) -> Iterator[list[UUID]]:
    size = BATCH * KEY_BYTES
    for start in range(0, len(keys), size):
        part = bytes(keys[start : start + size])
        yield [UUID(bytes=part[at : at + KEY_BYTES]) for at in range(0, len(part), KEY_BYTES)]


def _move(
    source: Source, keys: list[UUID], converter: Converter, report: Report, *, dry_run: bool
) -> None:
    given = source.jobs().filter(pk__in=keys) if dry_run else source.locked(keys)
    found = {one.pk: one for one in given}
    twins = set[UUID]()
    for model in TABLES:
        known = model._base_manager.using(source.using).filter(result_id__in=keys)
        twins.update(known.values_list("result_id", flat=True))
    rows, sizes = [], []
    for key in filter(found.__contains__, keys):
        try:
            rows.append(converter.row(found[key], twins))
            sizes.append(len(str(found[key].payload)))
        except Refused as problem:
            report.refuse(key, str(problem))
    report.taken += len(keys) - len(found)
    report.moved += len(rows)
    report.due_later += sum(row["retry_at"] is not None for row in rows)
    report.kinds.update((row["backend"], row["queue"], row["task_path"]) for row in rows)
    if rows and not dry_run:
        for model in TABLES:
            sized = [
                one for one in zip(rows, sizes, strict=True) if converter.model(one[0]) is model
            ]
            _insert(model, sized, source.using)
        _remove(source, rows)


def _insert(model: type[TaskRow], sized: list[tuple[dict[str, Any], int]], using: str) -> None:
    part: list[Any] = []
    room = INSERT_BYTES
    for row, size in sized:
        if part and size > room:
            model.insert_many(part, using)
            part, room = [], INSERT_BYTES
        part.append(row)
        room -= size
    if part:
        model.insert_many(part, using)


def _remove(source: Source, rows: list[dict[str, Any]]) -> None:
    removed = source.remove([row["result_id"] for row in rows])
    if removed != len(rows):
        text = _("%(removed)s of %(number)s rows could be removed from %(name)s: nothing was moved")
        numbers = {"removed": removed, "number": len(rows)}
        raise NotRemoved(text % {**numbers, "name": source.name})
