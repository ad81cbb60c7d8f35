"""Handing one message over to a mailer, and noting what it says of each recipient."""

import smtplib
from time import monotonic
from typing import Any

from ..deliveries import Deliveries, Delivery, Outcome, address_of, delivery
from ..headers import withhold_message_id
from ..outcomes import Meaning, NotTaken, RecipientRefused, code_and_text, explain, meaning_of
from . import esp
from .connections import connection
from .envelope import Envelope
from .smtp import Conversation, conversation_on

TAKEN = {250, 251, 252}
CLOSING = 421
OUTCOMES: dict[Meaning, Outcome] = {
    "retry": Outcome.DEFERRED,
    "pause": Outcome.DEFERRED,
    "fail": Outcome.REFUSED,
}


class MessageDelivery:
    """One attempt with one message."""

    def __init__(self, envelope: Envelope, deliveries: Deliveries, seconds: float) -> None:
        """``seconds``: how long it may take."""
        self.envelope = envelope
        self.deliveries = deliveries
        self._until = monotonic() + seconds
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
        error = self._attempt(using)
        if error is not None and self._was_hung_up(error):
            error = self._attempt(using)
        self._note(self._answers(error))
        return error

    def _attempt(self, using: str) -> Exception | None:
        self._is_connected, self._heard = False, None
        try:
            with connection(using) as line:
                self._is_reused = line.messages > 0
                withhold_message_id(self.envelope.message, line.backend, using)
                self._transmit(line.backend)
        except Exception as problem:  # noqa: BLE001  # why: what a message raises is its own outcome
            return problem
        return None

    def _transmit(self, backend: Any) -> None:
        self._is_connected = True
        self._heard = conversation_on(backend, self._until)
        self.envelope.address()
        if self._heard is None:
            self.envelope.address_headers()
        if backend.send_messages([self.envelope.message]) == 0:
            raise NotTaken("the mailer reported no error, but no message sent either")

    def _was_hung_up(self, error: Exception) -> bool:
        """Whether the server had enough of a connection that others were sent on, and has heard
        nothing yet of who is to get this one."""
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
        self.names, known = esp.statuses(self.envelope.message)
        if known:
            return [known.get(address_of(one)) or self._by_error(error) for one in recipients]
        if self._heard is None:
            return [self._by_error(error)] * len(recipients)
        return [self._heard_of(number, self._heard, error) for number in range(len(recipients))]

    def _heard_of(self, number: int, heard: Conversation, error: Exception | None) -> Delivery:
        answered = number < len(heard.recipients)
        if answered and heard.recipients[number][0] not in TAKEN:
            return self._judged(RecipientRefused(*heard.recipients[number]))
        if error is not None and heard.is_in_doubt:
            return delivery(Outcome.IN_DOUBT, None, explain(error))
        if error is None and heard.end is not None:
            return delivery(Outcome.DELIVERED, *heard.end)
        return self._by_error(error)

    def _by_error(self, error: Exception | None) -> Delivery:
        return self._judged(error) if error is not None else Delivery(Outcome.DELIVERED)

    def _judged(self, error: Exception) -> Delivery:
        meaning = meaning_of(error)
        if meaning == "pause":
            self.wants_pause = error
        if meaning == "fail" and not self._is_connected:
            meaning = "retry"
        return delivery(OUTCOMES[meaning], *code_and_text(error))

    def _note(self, answers: list[Delivery]) -> None:
        if not self.envelope.instead:
            for recipient, answer in zip(self.envelope.recipients, answers, strict=True):
                self.deliveries.note([recipient], answer)
            return
        missed = [answer for answer in answers if answer.outcome is not Outcome.DELIVERED]
        said = f"to {', '.join(self.envelope.instead)}"
        answer = missed[0] if missed else Delivery(Outcome.REDIRECTED, answers[0].code, said)
        self.deliveries.note(self.envelope.recipients, answer)
