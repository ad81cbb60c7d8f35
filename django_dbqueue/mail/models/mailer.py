"""Who delivers, and whether it rests; what its limits allow is in the bucket of its name."""

import math
import random
from collections.abc import Callable, Hashable
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

from django.apps import apps
from django.db import models, router

from ...fields import DbNow, InstantField, aware
from ...guard import clean
from ...lifecycle.rates import Bucket
from ...models import RateBucket
from ..conf import mailer_of, rates_for

PAUSE_SPREAD = 0.1  # of a pause, so that not all of what waits comes back at once
REASON_MAX_CHARS = 500
CACHE_SECONDS = 1.0
NOW: dict[str, Any] = {"now": DbNow()}
# As the bucket of a mailer names the table of emails.
JOB_TABLE = "dbqueue_mail_email"


class ShortCache:
    """Remembers for a second that something was found to be so: not every message asks.

    What another process changes meanwhile is seen at most a second later.
    """

    def __init__(self) -> None:
        self._seen: dict[Hashable, float] = {}

    def was_so(self, what: Hashable, look: Callable[[], bool]) -> bool:
        now = monotonic()
        if now - self._seen.get(what, -math.inf) < CACHE_SECONDS:
            return True
        if not look():
            return False
        self._seen[what] = now
        return True

    def forget(self) -> None:
        self._seen.clear()


at_work = ShortCache()
known = ShortCache()


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

    def rest(self, name: str) -> float:
        """Seconds that a mailer rests; what others say of that is seen within a second."""

        def is_at_work() -> bool:
            paused = self._written().filter(name=name, paused_until__gt=DbNow())
            return not paused.exists()

        if at_work.was_so(name, is_at_work):
            return 0.0
        return float(self.named(name).rest)

    def ask(self, name: str, count: int, using: str) -> float:
        """Tokens for a message to so many recipients, taken at once and without a lease: seconds
        until it may go out, 0 = now. ``using`` is the database of its row."""
        name = mailer_of(name)
        if rates := rates_for(name):
            self.named(name)
        if rest := self.rest(name):
            return rest * (1 + random.uniform(0, PAUSE_SPREAD))
        buckets = RateBucket.objects.db_manager(using)
        return buckets.take(JOB_TABLE, name, rates, count)

    def make_known(self, name: str) -> None:
        """It is in the list of mailers once mail was sent by it."""
        known.was_so(name, lambda: bool(self.named(name)))

    def pause(self, name: str, seconds: float, reason: str) -> None:
        """Let nothing go out by this mailer for a while; a longer pause stays."""
        row = self.named(name)
        until = aware(row.now).astimezone(UTC) + timedelta(seconds=seconds)
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

    objects = MailerManager()

    # The database's time when it was read, by MailerManager.named().
    now: datetime

    def __str__(self) -> str:
        return self.name

    @property
    def rest(self) -> float:
        """Seconds of its pause that are left."""
        if self.paused_until is None:
            return 0.0
        return max(0.0, aware(self.paused_until).timestamp() - aware(self.now).timestamp())

    def bucket(self) -> Bucket:
        """What is used of its limits now."""
        emails = apps.get_model("dbqueue_mail", "Email")
        buckets = RateBucket.objects.db_manager(router.db_for_write(emails))
        return buckets.peek(JOB_TABLE, self.name, rates_for(self.name))
