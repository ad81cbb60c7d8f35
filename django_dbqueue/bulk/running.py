"""The run of a bulk action: batch by batch, each noted with what it changed."""

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from django.apps import apps
from django.db import connections
from django.db.models import Model, QuerySet
from django.db.utils import Error

from ..exceptions import Bury, ClaimLost
from ..lifecycle.execute import in_transaction
from ..operate import walking
from ..operate.by_row import Doer
from ..operate.cursor import Cursor, decode, encode
from ..operate.keyset import Keyset
from ..operate.recording import KEYS_NAMED_MAX
from ..states import Status
from . import log_entry
from .chosen import Chosen, Unreadable, rows_of
from .verbs import Batch, ByRow, ByVerb, UnknownVerb, verb_of

BATCH_ROWS = 500
TOUCH_SECONDS = 10.0


class Stopped(Exception):
    """It is not ours any more: a person has ended it, or another worker has it."""


class Run:
    """Of one row, which this worker has claimed."""

    def __init__(self, row: Any) -> None:
        self.row = row
        self.model, self.verb, self.chosen = _meant_by(row)
        self.doer = Doer(row.asked_by_name, row.shown_at)
        # What was changed, and that it was, are written together where that can be.
        self.is_one_database = row.database == row._state.db
        self.touched_at = 0.0

    def go(self) -> None:
        """All that is left to do; what was done has its entry in the log, however it ends."""
        try:
            self._do_all()
        except Stopped:
            if not self._was_ended_by_hand():
                return
        except Exception as error:  # why: whatever it is, the worker is told of it
            with suppress(Error):
                log_entry.write(self.row, self.model, self.verb)
            self._bury_without_table(error)
            raise
        log_entry.write(self.row, self.model, self.verb)

    def _do_all(self) -> None:
        if self.row.total is None:
            self._touch()
            self._note(total=sum(one.queryset.count() for one in self._keysets(once=True)))
        first = self.row.place.get("part", 0)
        for part, keyset in enumerate(self._keysets()):
            if part < first:
                continue
            cursor = self._cursor_in(keyset) if part == first else None
            for keys, after in self._pages(keyset, cursor):
                self._touch()
                place = {"part": part + 1} if after is None else {"part": part, "after": after}
                if self._batch(keyset, keys, place):
                    # What is buried takes no room.
                    self._note(place={"part": part + 1})
                    break

    def _keysets(self, *, once: bool = False) -> Iterator[Keyset]:
        rows = rows_of(self.model, self.row.database)
        if self.model is type(self.row) and self.is_one_database:
            rows = rows.exclude(pk=self.row.pk)
        return self.chosen.keysets(rows, self.row.shown_at, self.verb.sources, once=once)

    def _cursor_in(self, keyset: Keyset) -> Cursor | None:
        text = self.row.place.get("after")
        return None if text is None else decode(self.model, keyset.order, text)

    def _pages(
        self, keyset: Keyset, cursor: Cursor | None
    ) -> Iterator[tuple[list[Any], str | None]]:
        """Keys, and where it goes on after them."""
        light = keyset.queryset.select_related(None).only("pk", *keyset.order.names)
        for page in walking.pages(keyset.of(light).as_of_now(), BATCH_ROWS, cursor):
            end = walking.after(keyset, page)
            yield [row.pk for row in page.rows], None if end is None else encode(end)

    def _batch(self, keyset: Keyset, keys: list[Any], place: dict[str, Any]) -> bool:
        """Whether there is no room for those that follow."""

        def work() -> tuple[bool, dict[str, Any]]:
            done = self._do(keyset.queryset, keys)
            was = self.row.counts
            columns = {
                "seen": self.row.seen + len(keys),
                "counts": was | {name: was.get(name, 0) + n for name, n in done.counts.items()},
                "first_keys": [*self.row.first_keys, *map(_as_json, done.keys)][:KEYS_NAMED_MAX],
                "place": place,
            }
            self._write(**columns)
            return done.is_full, columns

        connection = connections[self.row.database]
        is_full, columns = in_transaction(connection, work) if self.is_one_database else work()
        self._remember(**columns)
        return is_full

    def _do(self, rows: QuerySet[Any], keys: list[Any]) -> Batch:
        keeps = KEYS_NAMED_MAX - len(self.row.first_keys)
        return self.verb.do(rows, keys, self.doer, keeps) if keys else Batch({})

    def _note(self, **columns: Any) -> None:
        self._write(**columns)
        self._remember(**columns)

    def _write(self, **columns: Any) -> None:
        """``Stopped`` where it is not ours any more."""
        if not self._own.filter(owner=self.row.claim_owner).update(**columns):
            raise Stopped

    def _remember(self, **columns: Any) -> None:
        for name, value in columns.items():
            setattr(self.row, name, value)

    @property
    def _own(self) -> QuerySet[Any]:
        rows: QuerySet[Any] = type(self.row)._base_manager.using(self.row._state.db)
        return rows.filter(pk=self.row.pk)

    def _touch(self) -> None:
        now, time_to_run = time.monotonic(), self.row.time_to_run or TOUCH_SECONDS
        if now - self.touched_at < min(TOUCH_SECONDS, time_to_run / 4):
            return
        self.touched_at = now
        try:
            self.row.touch()
        except ClaimLost as lost:
            raise Stopped from lost

    def _was_ended_by_hand(self) -> bool:
        """Not where it goes on elsewhere."""
        status = self._own.values_list("status", flat=True).first()
        return status in {None, Status.BURIED, Status.DONE}

    def _bury_without_table(self, error: Exception) -> None:
        """No other try would find it, either."""
        connection = connections[self.row.database]
        with suppress(Error):
            if self.model._meta.db_table not in connection.introspection.table_names():
                place = f"{self.row.target!r} on {self.row.database!r}"
                raise Bury(f"there is no table {place} any more") from error


def _as_json(key: Any) -> int | str:
    return key if isinstance(key, int) else str(key)  # as of a UUID


def _meant_by(row: Any) -> tuple[type[Model], ByVerb | ByRow, Chosen]:
    """``Bury`` says what is not there any more: no other try would find it."""
    if row.database not in connections:
        raise Bury(f"there is no database {row.database!r} any more")
    try:
        model = apps.get_model(row.target)
    except (LookupError, ValueError) as error:
        raise Bury(f"there is no table {row.target!r} any more") from error
    try:
        return model, verb_of(row.verb, row.values), Chosen.read(row.choice)
    except (UnknownVerb, Unreadable, TypeError, ValueError) as error:
        raise Bury(str(error)) from error
