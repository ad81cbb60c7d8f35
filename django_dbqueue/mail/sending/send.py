"""Sending one queued message through the mailer that the project has configured, and noting what
that says of each recipient."""

import logging
import re
import smtplib
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any, NoReturn

from django.db import connections

from ...exceptions import Bury, Retry
from ...lifecycle.execute import retry
from ..conf import mail_conf, mailer_of
from ..deliveries import CUT_OFF, OPEN, SENT, Deliveries, Delivery, Outcome, address_of, delivery
from ..headers import withhold_message_id
from ..models.mailer import Mailer
from ..models.provider import ProviderNote
from ..models.suppression import normal
from ..outcomes import Meaning, NotTaken, RecipientRefused, code_and_text, explain, meaning_of
from .connections import NOT_ASKED, Conversation, connection, conversation_on
from .envelope import Envelope, envelope_for
from .provider_statuses import provider_statuses

logger = logging.getLogger("django_dbqueue")

SPARE_SECONDS = 10.0  # of the time to run, to write the outcome
DONE = 250
TAKEN = {250, 251, 252}
CLOSING = 421
# To a recipient who is one too many for one message; a mailbox may be full, too.
FULL = {452, 552}
TOO_MANY = re.compile(rb"[45]\.5\.3\b|too many", re.IGNORECASE)
OUTCOMES: dict[Meaning, Outcome] = {
    "retry": Outcome.DEFERRED,
    "pause": Outcome.DEFERRED,
    "fail": Outcome.REFUSED,
}


def send(email: Any) -> None:
    """Deliver the message of an ``Email``, maybe twice if the process dies after the server took
    it.

    What became of each recipient is left in ``email.deliveries``. A temporary error is raised as
    it is, so that the job is retried; a final one as ``Bury`` with the server's code and text.
    While the mailer rests or is at its limit, the job is given back until then. No transaction
    is opened here.
    """
    try:
        message = email.to_message()
    except Exception as problem:  # why: whatever is stored there, it is no message
        raise Bury(explain(problem)) from problem
    deliveries = Deliveries(email.deliveries)
    holds = mail_conf["IN_DOUBT"] == "hold"
    if holds and deliveries.is_under_way:
        deliveries.note_cut_off()
        _hold(email, deliveries)
    # At the first attempt, or the first one since a person asked for another.
    is_first = email.attempts <= 1
    if is_first:
        deliveries.forget_doubts()
    envelope = envelope_for(message, deliveries, refused_too=is_first)
    if holds and email.crashes and envelope.recipients:
        # It was being run when its child died: one without this setting sends without a mark.
        deliveries.note(envelope.recipients, Delivery(Outcome.IN_DOUBT, text=CUT_OFF))
        _hold(email, deliveries)
    error = None
    if _must_wait(email, len(envelope.handed_over_for) if envelope.recipients else 0):
        return
    if envelope.recipients:
        error = _hand_over(email, envelope, deliveries)
    email.deliveries = deliveries.stored()
    _conclude(deliveries, error)


def _hold(email: Any, deliveries: Deliveries) -> NoReturn:
    """Leave to a person what a run that was cut off may have sent."""
    email.deliveries = deliveries.stored()
    raise Bury(f"in doubt: {CUT_OFF}, and may have sent it before")


def _must_wait(email: Any, count: int) -> bool:
    """Whether it is given back, as its mailer rests or is at its limit; else so many tokens are
    used."""
    if (turn := email.rate_turn) is not None:
        if count and Mailer.objects.rest(mailer_of(email.using)):
            turn.count = 0
            email.release()  # nobody claims it in the meantime
            return True
        turn.count = count
    elif count and (wait := Mailer.objects.ask(email.using, count, email._state.db)):
        email.release(wait)
        return True
    if count:
        Mailer.objects.make_known(mailer_of(email.using))
    return False


def _hand_over(email: Any, envelope: Envelope, deliveries: Deliveries) -> Exception | None:
    """What was raised, if anything was."""
    seconds = (email.time_to_run or email.policy().time_to_run) - SPARE_SECONDS

    def keep(known: Deliveries) -> None:
        email.deliveries = known.stored()
        database = email._state.db  # whatever a router says by now
        save = partial(email.save, using=database, update_fields=["deliveries"])
        retry(connections[database], save)

    holds = mail_conf["IN_DOUBT"] == "hold"
    attempt = Attempt(envelope, deliveries, seconds, keep if holds else None)
    error = attempt.to(email.using)
    if email.rate_turn is not None:
        email.rate_turn.end()  # the server has counted it
    # Whatever fails from here on, it must be known who has the message.
    email.deliveries = deliveries.stored()
    if attempt.wants_pause:
        Mailer.objects.pause(email.using, mail_conf["PAUSE"], explain(attempt.wants_pause))
    if attempt.names:
        # By which the provider will tell of it: one in the row, any others in notes.
        first, *more = attempt.names
        others = {*more, email.provider_id or first} - {first}
        email.provider_id = first
        if others:
            ProviderNote.objects.using(email._state.db).bulk_create(
                [ProviderNote(name=one, email=email.pk) for one in sorted(others)]
            )
    return error


def _conclude(deliveries: Deliveries, error: Exception | None) -> None:
    """Say by an exception what is to become of the job, unless all is well."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        error = None  # it says in bytes what is known of each recipient
    # It may have been sent; a person has it sent again, and we do so only a few times.
    doubtful = deliveries.having({Outcome.IN_DOUBT}).values()
    repeats = mail_conf["IN_DOUBT_REPEATS"]
    if any(mail_conf["IN_DOUBT"] == "hold" or one.doubts > repeats for one in doubtful):
        raise Bury(f"in doubt: {deliveries.summary()}") from error
    if deliveries.having(OPEN):
        raise error or Retry(reason=deliveries.summary())
    if deliveries.having({Outcome.REFUSED}) or not deliveries.having(SENT):
        raise Bury(explain(error) if error else deliveries.summary()) from error
    if error is not None:
        logger.error("the mail is sent, and then its mailer raised: %s", explain(error))


class Attempt:
    """One attempt to deliver one message."""

    def __init__(
        self,
        envelope: Envelope,
        deliveries: Deliveries,
        seconds: float,
        keep: Callable[[Deliveries], None] | None = None,
    ) -> None:
        """``seconds``: how long it may take; ``keep`` writes, before anybody may get the message,
        what is known of it should nobody hear how that ends."""
        self.envelope = envelope
        self.deliveries = deliveries
        self._keep = keep
        self._until = monotonic() + seconds
        self._half = monotonic() + seconds / 2
        # What the mailer calls the message.
        self.names: list[str] = []
        # What made it ask to be left alone.
        self.wants_pause: Exception | None = None
        self._heard: Conversation | None = None
        # Until then nothing is said of the message.
        self._is_connected = False
        self._is_reused = False

    def to(self, using: str) -> Exception | None:
        """Note what becomes of each recipient; what was raised, if anything was."""
        error = self._say(using)
        while error is None and (left := self._too_many()):
            self.envelope.narrow(left)
            error = self._say(using)
        return error

    def _say(self, using: str) -> Exception | None:
        error = self._try(using)
        if error is not None and self._was_hung_up(error):
            error = self._try(using)
        self._note(self._answers(error), self.deliveries)
        return error

    def _too_many(self) -> list[str]:
        """Whom the server would have with another message alone, as RFC 5321 has it: it has taken
        this one for as many as it takes at once."""
        heard, recipients = self._heard, self.envelope.recipients
        if heard is None or heard.end is None or monotonic() > self._half:
            return []
        if self.envelope.instead or self.envelope.handed != recipients:
            return []
        answers = zip(recipients, heard.recipients, strict=False)
        return [one for one, (code, text) in answers if code in FULL and TOO_MANY.search(text)]

    def _note(self, answers: list[Delivery], deliveries: Deliveries) -> None:
        recipients = self.envelope.recipients
        if not self.envelope.instead:
            for recipient, answer in zip(recipients, answers, strict=True):
                deliveries.note([recipient], answer)
            return
        missed = [answer for answer in answers if answer.outcome is not Outcome.DELIVERED]
        said = f"to {', '.join(self.envelope.instead)}"
        answer = missed[0] if missed else Delivery(Outcome.REDIRECTED, answers[0].code, said)
        deliveries.note(recipients, answer)

    def _try(self, using: str) -> Exception | None:
        self._is_connected, self._heard = False, None
        try:
            with connection(using) as kept:
                self._is_reused = kept.messages > 0
                withhold_message_id(self.envelope.message, kept.backend, using)
                self._transmit(kept.backend)
        except Exception as problem:  # noqa: BLE001  # why: what a message raises is its own outcome
            return problem
        return None

    def _transmit(self, backend: Any) -> None:
        self._is_connected = True
        self._heard = conversation_on(backend, self._until, self._before_sending)
        self.envelope.address()
        if self._heard is None:
            self.envelope.address_headers()
            self._before_sending()
        if backend.send_messages([self.envelope.message]) == 0:
            raise NotTaken("the mailer reported no error, but no message sent either")

    def _before_sending(self) -> None:
        if self._keep is None:
            return
        count = len(self.envelope.handed_over_for)
        unheard = Delivery(Outcome.IN_DOUBT, text="it is being sent", under_way=True)
        known = Deliveries(self.deliveries.stored())
        self._note([self._refusal(number) or unheard for number in range(count)], known)
        self._keep(known)

    def _was_hung_up(self, error: Exception) -> bool:
        """Whether the server has ended a connection on which it took other messages, and has heard
        of no recipient of this one."""
        if not self._is_reused or self._heard is None or self._heard.recipients:
            return False
        # smtplib says the same of a server that did not answer in time: no second wait for that.
        if isinstance(error.__context__, TimeoutError):
            return False
        lost = isinstance(error, (smtplib.SMTPServerDisconnected, ConnectionError))
        return lost or getattr(error, "smtp_code", None) == CLOSING

    def _answers(self, error: Exception | None) -> list[Delivery]:
        """One for each recipient that the message was handed over for."""
        recipients = self.envelope.handed_over_for
        self.names, known = provider_statuses(self.envelope.message)
        if known:
            return [known.get(address_of(one)) or self._by_error(error) for one in recipients]
        if self._heard is None:
            return [self._by_error(error)] * len(recipients)
        return [self._heard_of(number, self._heard, error) for number in range(len(recipients))]

    def _heard_of(self, number: int, heard: Conversation, error: Exception | None) -> Delivery:
        if refusal := self._refusal(number):
            return refusal
        if error is not None and heard.is_in_doubt:
            return delivery(Outcome.IN_DOUBT, None, explain(error))
        if heard.end is not None and (error is None or self._is_taken(number, heard)):
            return delivery(Outcome.DELIVERED, *heard.end)
        return self._by_error(error)

    def _is_taken(self, number: int, heard: Conversation) -> bool:
        """Whether the server took the whole message for this one, before the mailer raised."""
        whom = self.envelope.handed_over_for[number]
        place = self.envelope.place_of(whom)
        if place is None or heard.end is None or heard.end[0] != DONE:
            return False
        asked = heard.asked[place : place + 1]
        return [normal(address_of(one)) for one in asked] == [normal(address_of(whom))]

    def _refusal(self, number: int) -> Delivery | None:
        """What the server said to a recipient that it did not take."""
        place = self.envelope.place_of(self.envelope.handed_over_for[number])
        if self._heard is None or place is None:
            return None
        said = self._heard.recipients[place : place + 1]
        if not said or said[0][0] in TAKEN:
            return None
        if said[0] is NOT_ASKED:
            return delivery(Outcome.DEFERRED, *NOT_ASKED)  # whatever a project makes of a 450
        return self._judged(RecipientRefused(*said[0]))

    def _by_error(self, error: Exception | None) -> Delivery:
        return self._judged(error) if error is not None else Delivery(Outcome.DELIVERED)

    def _judged(self, error: Exception) -> Delivery:
        meaning = meaning_of(error)
        if meaning == "pause":
            self.wants_pause = error
        if meaning == "fail" and not self._is_connected:
            meaning = "retry"
        return delivery(OUTCOMES[meaning], *code_and_text(error))
