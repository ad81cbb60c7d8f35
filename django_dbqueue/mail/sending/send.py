"""Sending one queued message through the mailer that the project has configured."""

from smtplib import SMTPRecipientsRefused
from typing import TYPE_CHECKING

from django.core.mail import EmailMessage

from ...exceptions import Bury, Retry
from ..conf import mail_conf
from ..deliveries import OPEN, SENT, Deliveries, Delivery, Outcome
from ..models.mailer import Mailer
from ..models.provider import ProviderNote
from ..outcomes import explain
from .delivery import MessageDelivery
from .envelope import envelope_for

if TYPE_CHECKING:
    from ..models import Email

SPARE_SECONDS = 10.0


def send(email: "Email") -> None:
    """Deliver the message; it may be delivered twice if the process dies after the server took it.

    What became of each recipient is left in ``email.deliveries``. A temporary error is raised as
    it is, so that the job is retried; a final one as ``Bury`` with the server's code and text.
    While the mailer rests or is at its limit, the job is given back until then. No transaction
    is opened here.
    """
    message, deliveries = _readable(email), Deliveries(email.deliveries)
    _refuse_after_crash(email, message, deliveries)
    # At the first attempt, or the first one since a person asked for another.
    is_first = email.attempts <= 1
    if is_first:
        deliveries.forget_doubts()
    envelope = envelope_for(message, deliveries, afresh=is_first)
    error = None
    if envelope.recipients:
        if not _has_turn(email, len(envelope.handed_over_for)):
            return
        hand_over = MessageDelivery(envelope, deliveries, _seconds(email))
        error = _hand_over(email, hand_over)
    email.deliveries = deliveries.stored()
    _conclude(deliveries, error)


def _readable(email: "Email") -> EmailMessage:
    try:
        return email.to_message()
    except Exception as error:  # why: whatever is stored there, it is no message
        raise Bury(explain(error)) from error


def _seconds(email: "Email") -> float:
    """How long a server may keep us, so that the outcome is written before the time is over."""
    return (email.time_to_run or email.policy().time_to_run) - SPARE_SECONDS


def _refuse_after_crash(email: "Email", message: EmailMessage, deliveries: Deliveries) -> None:
    if not (email.crashes or email.losses) or mail_conf["IN_DOUBT"] != "hold":
        return
    waiting = deliveries.waiting(message.recipients(), refused_too=False)
    deliveries.note(waiting, Delivery(Outcome.IN_DOUBT, text="its worker died"))
    email.deliveries = deliveries.stored()
    raise Bury("in doubt: its worker died, and may have sent it before")


def _has_turn(email: "Email", recipients: int) -> bool:
    """Else it is given back until its turn comes."""
    turn = Mailer.objects.ask(email.using, recipients, email.turn_at, email.is_urgent)
    email.turn_at = turn.at
    if turn.wait:
        email.release(turn.wait)
    return not turn.wait


def _hand_over(email: "Email", hand_over: MessageDelivery) -> Exception | None:
    error = hand_over.to(email.using)
    # Who has it must be known whatever fails from here on.
    email.deliveries = hand_over.deliveries.stored()
    if hand_over.wants_pause:
        Mailer.objects.pause(email.using, mail_conf["PAUSE"], explain(hand_over.wants_pause))
    _keep_names(email, hand_over.names)
    return error


def _keep_names(email: "Email", names: list[str]) -> None:
    """By which the provider will tell of it: one in the row, any others beside it."""
    if not names:
        return
    others = {*names[1:], email.provider_id or names[0]} - {names[0]}
    email.provider_id = names[0]
    if others:
        ProviderNote.objects.using(email._state.db).bulk_create(
            [ProviderNote(name=one, email=email.pk) for one in sorted(others)]
        )


def _conclude(deliveries: Deliveries, error: Exception | None) -> None:
    """Say by an exception what is to become of the job, unless all is well."""
    if isinstance(error, SMTPRecipientsRefused):
        error = None  # it says in bytes what is known of each recipient
    if _is_for_a_person(deliveries):
        raise Bury(f"in doubt: {deliveries.summary()}") from error
    if deliveries.having(OPEN):
        raise error or Retry(reason=deliveries.summary())
    if deliveries.having({Outcome.REFUSED}) or not deliveries.having(SENT):
        raise Bury(explain(error) if error else deliveries.summary()) from error


def _is_for_a_person(deliveries: Deliveries) -> bool:
    """Whether it may have been sent, and is not sent again without a word of somebody."""
    doubtful = deliveries.having({Outcome.IN_DOUBT}).values()
    most = mail_conf["IN_DOUBT_REPEATS"]
    return any(mail_conf["IN_DOUBT"] == "hold" or one.doubts > most for one in doubtful)
