"""What would be sent now, told without sending or changing anything."""

from collections.abc import Iterator
from typing import Any

from django.db import router
from django.db.models import Q

from ...fields import DbNow
from ...guard import capture
from ...models import RateBucket
from ...models.queue import is_among
from ...states import Status
from ..conf import mail_conf, mailer_of, rates_for
from ..deliveries import Deliveries, Outcome
from ..models import Email, Mailer
from ..models.mailer import JOB_TABLE
from ..outcomes import explain
from ..rows import windows
from .connections import new_backend
from .envelope import envelope_for

PAGE_ROWS = 50  # messages in memory at a time
KEPT_BACK = {Outcome.SUPPRESSED, Outcome.NOT_ALLOWED}


class DryRun:
    """One line for each email that is due, in the order of their keys.

    Who is at a mailer's limit is told as if they were sent in this order, and nothing else went out
    meanwhile. What a mail server would say is not asked.
    """

    def __init__(self) -> None:
        self.database = router.db_for_write(Email)
        self.due = 0
        self.would_be_sent = 0
        self.paused = Email.objects.db_manager(self.database).paused_queues()
        mailers: Any = Mailer.objects.using(router.db_for_write(Mailer))
        self.mailers: dict[str, Mailer] = {one.name: one for one in mailers.annotate(now=DbNow())}
        self.prospects: dict[str, Prospect] = {}

    def lines(self) -> Iterator[str]:
        rows = Email._base_manager.using(self.database).annotate(now=DbNow())
        is_due = Q(status=Status.READY) | Q(status=Status.DELAYED, retry_at__lte=DbNow())
        for window in windows(rows):
            due = window.filter(is_due).order_by("pk")
            while page := list(due[:PAGE_ROWS]):
                for email in page:
                    yield f"{email.pk} by {mailer_of(email.using)}: {self._tell(email)}"
                due = due.filter(pk__gt=page[-1].pk)

    def summary(self) -> str:
        return f"due: {self.due}, would be sent: {self.would_be_sent}"

    def _tell(self, email: Any) -> str:
        self.due += 1
        held = self._held_back(email)
        try:
            message = email.to_message()
        except Exception as error:  # noqa: BLE001  # why: whatever is stored there, it is told
            return "; ".join([f"would fail: it cannot be read: {explain(error)}", *held])
        deliveries = Deliveries(email.deliveries)
        envelope = envelope_for(message, deliveries, refused_too=not email.attempts)
        if envelope.recipients and not held:
            name = mailer_of(email.using)
            if name not in self.prospects:
                self.prospects[name] = Prospect(email)
            held = self.prospects[name].held_back(email, len(envelope.handed_over_for))
        self.would_be_sent += bool(envelope.recipients and not held)
        whom = f"to {', '.join(envelope.recipients) or 'nobody'}"
        if envelope.recipients and envelope.instead:
            whom = f"to {', '.join(envelope.instead)} instead of {', '.join(envelope.recipients)}"
        kept_back = deliveries.having(KEPT_BACK).items()
        others = [f"not to {who} ({known.outcome}: {known.text})" for who, known in kept_back]
        return "; ".join([whom, *others, *held])

    def _held_back(self, email: Any) -> list[str]:
        """Why a worker would not send it now."""
        found = []
        if email.expires_at is not None and email.expires_at <= email.now:
            found.append("has expired: not sent at all")
        if (email.crashes or email.losses) and mail_conf["IN_DOUBT"] == "hold":
            found.append("in doubt: kept for a person")
        if is_among(self.paused, Email, email.queue):
            found.append(f"its queue {email.queue} is paused")
        mailer = self.mailers.get(mailer_of(email.using))
        if mailer is not None and mailer.rest:
            found.append(f"its mailer rests for {mailer.rest:.0f} s: {mailer.pause_reason}")
        return found


class Prospect:
    """What a mailer would do, and how much of its limits would be used by then."""

    def __init__(self, email: Any) -> None:
        name = mailer_of(email.using)
        with capture() as look:
            buckets = RateBucket.objects.db_manager(email._state.db)
            self.bucket = buckets.peek(JOB_TABLE, name, rates_for(name))
            new_backend(email.using)
        self.problem = look.error

    def held_back(self, email: Any, count: int) -> list[str]:
        if self.problem is not None:
            return [f"would be retried: no mailer for it: {explain(self.problem)}"]
        now = self.bucket.now = email.now.timestamp()
        offer = self.bucket.offer(count, 0.0, need=count)
        if self.bucket.rates and not offer.times:
            return [f"its mailer is at its limit: not before {offer.wait:.0f} s from now"]
        self.bucket.note_used(now, count)
        return []
