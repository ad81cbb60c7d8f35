"""What would be sent now, told without sending or changing anything."""

from collections.abc import Iterator
from typing import Any

from django.db import router
from django.db.models import Q
from django.utils.translation import gettext as _

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
                    text, name = _("%(email)s by %(mailer)s: %(what)s"), mailer_of(email.using)
                    yield text % {"email": email.pk, "mailer": name, "what": self._tell(email)}
                due = due.filter(pk__gt=page[-1].pk)

    def summary(self) -> str:
        text = _("due: %(due)s, would be sent: %(sent)s")
        return text % {"due": self.due, "sent": self.would_be_sent}

    def _tell(self, email: Any) -> str:
        self.due += 1
        held = self._held_back(email)
        try:
            message = email.to_message()
        except Exception as error:  # noqa: BLE001  # why: whatever is stored there, it is told
            text = _("would fail: it cannot be read: %(why)s") % {"why": explain(error)}
            return "; ".join([text, *held])
        deliveries = Deliveries(email.deliveries)
        was_cut_off = deliveries.is_under_way
        envelope = envelope_for(message, deliveries, refused_too=not email.attempts)
        was_cut_off |= bool(email.crashes and envelope.recipients)
        if was_cut_off and mail_conf["IN_DOUBT"] == "hold":
            held.insert(0, _("in doubt: kept for a person"))
        if envelope.recipients and not held:
            name = mailer_of(email.using)
            if name not in self.prospects:
                self.prospects[name] = Prospect(email)
            held = self.prospects[name].held_back(email, len(envelope.handed_over_for))
        self.would_be_sent += bool(envelope.recipients and not held)
        whom = _("to %(recipients)s") if envelope.recipients else _("to nobody")
        if envelope.recipients and envelope.instead:
            whom = _("to %(others)s instead of %(recipients)s")
        names = {"recipients": envelope.recipients, "others": envelope.instead}
        whom %= {name: ", ".join(addresses) for name, addresses in names.items()}
        kept_back = deliveries.having(KEPT_BACK).items()
        text = _("not to %(recipient)s (%(outcome)s: %(text)s)")
        others = [
            text % {"recipient": who, "outcome": known.outcome, "text": known.text}
            for who, known in kept_back
        ]
        return "; ".join([whom, *others, *held])

    def _held_back(self, email: Any) -> list[str]:
        """Why a worker would not send it now."""
        found = []
        if email.expires_at is not None and email.expires_at <= email.now:
            found.append(_("has expired: not sent at all"))
        if is_among(self.paused, Email, email.queue):
            found.append(_("its queue %(queue)s is paused") % {"queue": email.queue})
        mailer = self.mailers.get(mailer_of(email.using))
        if mailer is not None and mailer.rest:
            text = _("its mailer rests for %(seconds)s s: %(reason)s")
            found.append(text % {"seconds": f"{mailer.rest:.0f}", "reason": mailer.pause_reason})
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
            text = _("would be retried: no mailer for it: %(why)s")
            return [text % {"why": explain(self.problem)}]
        now = self.bucket.now = email.now.timestamp()
        offer = self.bucket.offer(count, 0.0, need=count)
        if self.bucket.rates and not offer.times:
            text = _("its mailer is at its limit: not before %(seconds)s s from now")
            return [text % {"seconds": f"{offer.wait:.0f}"}]
        self.bucket.note_used(now, count)
        return []
