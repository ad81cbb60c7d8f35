"""Who delivers: whether it rests, and how much of its limits is used."""

import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import models, router

from ...fields import DbNow, InstantField
from ...guard import clean
from .. import limits
from ..conf import mailer_of, rates_for
from ..limits import Rate, Taken
from .suppression import ShortCache

ASKS_MAX = 50
PAUSE_SPREAD = 0.1  # of a pause, so that not all of what waits comes back at once
REASON_MAX_CHARS = 500
URGENT_RECHECK_SECONDS = 1.0  # who is urgent looks again at the latest, if there are tokens
NOW: dict[str, Any] = {"now": DbNow()}


@dataclass(frozen=True)
class LimitSlot:
    """Whether a message may be sent now: ``wait`` seconds, and when its turn then is."""

    wait: float = 0.0
    at: datetime | None = None


at_work = ShortCache()


class MailerManager(models.Manager["Mailer"]):
    def named(self, name: str) -> "Mailer":
        """The row of a mailer, made when it is first needed, with the database's time."""
        name = mailer_of(name)
        rows: Any = self._written().annotate(**NOW)
        row: Mailer | None = rows.filter(name=name).first()
        if row is None:
            rows.bulk_create([self.model(name=name)], ignore_conflicts=True)
            return rows.get(name=name)  # type: ignore[no-any-return]
        return row

    def ask(self, name: str, count: int, turn_at: datetime | None, is_urgent: bool) -> LimitSlot:
        """A turn for a message to so many recipients.

        Over the limit, messages wait in line, in the order in which they ask, whatever their
        priority: each is promised a turn, and new ones get nothing that is promised. ``turn_at`` is
        what it was told before; it goes to the end of the line a second time only where it missed
        its turn by more than a period, as after an outage. Who is urgent passes the line.
        """
        name = mailer_of(name)

        def is_at_work() -> bool:
            return bool(self._written().filter(name=name, paused_until=None).exists())

        if not rates_for(name) and at_work.was_so(name, is_at_work):
            return LimitSlot()
        for _ in range(ASKS_MAX):
            row = self.named(name)
            turn = row.judge(count, turn_at, is_urgent)
            if turn is not None:
                return turn
        return LimitSlot(wait=random.uniform(0.1, 1))  # too many ask at once

    def pause(self, name: str, seconds: float, reason: str) -> None:
        """Let nothing go out by this mailer for a while; a longer pause stays."""
        row = self.named(name)
        until = row.now + timedelta(seconds=seconds)
        self.using(row._state.db).filter(pk=row.pk).exclude(paused_until__gt=until).update(
            paused_until=until, pause_reason=clean(reason)[:REASON_MAX_CHARS]
        )
        at_work.forget()

    def _written(self) -> Any:
        return self.using(router.db_for_write(self.model))

    def resume(self, name: str) -> None:
        row = self.named(name)
        self.using(row._state.db).filter(pk=row.pk).update(paused_until=None, pause_reason="")


class Mailer(models.Model):
    """One mailer: an entry of ``MAILERS``, or ``default`` where the project has none."""

    name = models.CharField(max_length=100, unique=True)
    paused_until = InstantField(null=True, blank=True)
    pause_reason = models.CharField(max_length=REASON_MAX_CHARS, blank=True)
    taken: Any = models.JSONField(default=dict, editable=False)
    # When the last one in the line has its turn, and the tokens that were promised.
    line_ends_at = InstantField(null=True, editable=False)
    promises: Any = models.JSONField(default=dict, editable=False)
    # For whom those in the line leave tokens, and until when: somebody urgent.
    urgent_count = models.PositiveIntegerField(default=0, editable=False)
    urgent_until = InstantField(null=True, editable=False)
    # The limits that the line was made by.
    line_limits: Any = models.JSONField(default=dict, editable=False)
    # While a line is made again: up to which key its emails were called back.
    called_up_to = models.BigIntegerField(null=True, editable=False)
    version = models.BigIntegerField(default=0, editable=False)

    objects = MailerManager()

    # The database's time when it was read, by MailerManager.named().
    now: datetime

    def __str__(self) -> str:
        return self.name

    @property
    def rest(self) -> float:
        """Seconds of its pause that are left."""
        return _seconds(self.paused_until, self.now)

    @property
    def has_line(self) -> bool:
        """Whether somebody was promised a turn that is still to come."""
        return self.line_ends_at is not None and self.line_ends_at > self.now

    def has_tokens(self, count: int) -> bool:
        """Whether a message to so many recipients could be sent now."""
        return not self._wait(rates_for(self.name), count)

    def renew(self) -> bool:
        """Begin a new line, if nobody was faster; what is in the old one is called back by the
        reaper, from the lowest key on."""
        made_by = limits.written(rates_for(self.name))
        return self._write(promises={}, line_ends_at=None, line_limits=made_by, called_up_to=0)

    def note_called(self, up_to: int | None) -> None:
        """None where all have been."""
        rows = Mailer.objects.using(self._state.db).filter(pk=self.pk)
        rows.filter(called_up_to=self.called_up_to).update(called_up_to=up_to)

    def judge(self, count: int, turn_at: datetime | None, is_urgent: bool) -> LimitSlot | None:
        """A turn; None where somebody else was faster, so that one has to look again."""
        if self.rest:
            return LimitSlot(wait=self.rest * (1 + random.uniform(0, PAUSE_SPREAD)), at=turn_at)
        rates = rates_for(self.name)
        if not rates:
            return LimitSlot()
        late = (self.now - turn_at).total_seconds() if turn_at else 0.0
        if is_urgent:
            return self._outside_the_line(rates, count, turn_at or self.now, late)
        if turn_at is None or late > limits.shortest(rates).seconds:
            return self._at_the_end(rates, count)
        if wait := self._wait(rates, count + self._left_to_urgent):
            return LimitSlot(max(wait, -late), turn_at)
        return self._go(rates, count)

    def _outside_the_line(
        self, rates: list[Rate], count: int, turn_at: datetime, late: float
    ) -> LimitSlot | None:
        """What it takes is taken from those to come; who was promised a turn keeps it."""
        if wait := self._wait(rates, count):
            # The later it is, the longer it waits: not all for the same token.
            wait = max(wait, min(late, URGENT_RECHECK_SECONDS))
            until = self.now + timedelta(seconds=wait + URGENT_RECHECK_SECONDS)
            kept = self._write(urgent_count=count, urgent_until=until)
            return LimitSlot(wait, turn_at) if kept else None
        promises = self._promised(rates, count, self._free_at)
        return self._go(rates, count, promises=promises, urgent_count=0)

    def _at_the_end(self, rates: list[Rate], count: int) -> LimitSlot | None:
        now, promises = self.now.timestamp(), limits.read_taken(self.promises)
        turn = limits.next_turn(promises, rates, now, self._free_at, count)
        wait = max(turn - now, self._wait(rates, count + self._left_to_urgent))
        promises = self._promised(rates, count, now + wait)
        if not wait:
            return self._go(rates, count, promises=promises)
        at = self.now + timedelta(seconds=wait)
        made_by = self.line_limits if self._free_at > now else limits.written(rates)
        done = self._write(promises=promises, line_ends_at=at, line_limits=made_by)
        return LimitSlot(wait, at) if done else None

    @property
    def _left_to_urgent(self) -> int:
        return self.urgent_count if _seconds(self.urgent_until, self.now) else 0

    @property
    def _free_at(self) -> float:
        """When all those in the line have had their turns."""
        now = self.now.timestamp()
        return max(now, self.line_ends_at.timestamp()) if self.line_ends_at else now

    def _wait(self, rates: list[Rate], count: int) -> float:
        return limits.wait_for(limits.read_taken(self.taken), rates, self.now.timestamp(), count)

    def _promised(self, rates: list[Rate], count: int, at: float) -> Taken:
        promises = limits.read_taken(self.promises)
        return limits.take(promises, limits.promised(rates), at, count)

    def _go(self, rates: list[Rate], count: int, **columns: Any) -> LimitSlot | None:
        taken = limits.read_taken(self.taken)
        more = limits.take(taken, rates, self.now.timestamp(), count)
        return LimitSlot() if self._write(taken=more, **columns) else None

    def _write(self, **columns: Any) -> bool:
        """Whether nobody else has written since this was read."""
        rows = Mailer.objects.using(self._state.db).filter(pk=self.pk, version=self.version)
        return bool(rows.update(version=self.version + 1, **columns))


def _seconds(until: datetime | None, now: datetime) -> float:
    return max(0.0, (until - now).total_seconds()) if until else 0.0
