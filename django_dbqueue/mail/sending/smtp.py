"""Django's SMTP backend, with everything kept that the server says about a message."""

import smtplib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from time import monotonic
from typing import TYPE_CHECKING, Any

from django.core.mail.backends import smtp

from ..conf import mail_conf

if TYPE_CHECKING:
    Client = smtplib.SMTP
    Backend = smtp.EmailBackend
else:
    Client = Backend = object

Answer = tuple[int, bytes]


@dataclass
class Conversation:
    """What a server said about one message."""

    # When there is no more time for it, by the monotonic clock.
    until: float = float("inf")
    # To each recipient, in their order, as far as it came.
    recipients: list[Answer] = field(default_factory=list)
    # To the whole of the message.
    end: Answer | None = None
    # All of it was sent, the final dot included, and no answer came.
    is_in_doubt: bool = False


class Listening(Client):
    """Mixed into smtplib's clients."""

    listener: "ListeningBackend"

    def rcpt(self, recip: str, options: Any = ()) -> Answer:
        answer = super().rcpt(recip, options)
        self.listener.conversation.recipients.append(answer)
        return answer

    def data(self, msg: Any) -> Answer:
        with self._timeout_kept():
            answer = super().data(msg)
        self.listener.conversation.is_in_doubt = False
        self.listener.conversation.end = answer
        return answer

    def send(self, s: Any) -> None:
        super().send(s)
        # Commands are text; bytes are a message, with its final dot.
        if isinstance(s, bytes):
            self.listener.conversation.is_in_doubt = True
            self._be_patient()

    def _be_patient(self) -> None:
        """The answer to a whole message may take longer than any other, but not for ever."""
        usual = self.sock.gettimeout() if self.sock else None
        if self.sock is None or usual is None:
            return
        left = self.listener.conversation.until - monotonic()
        self.sock.settimeout(max(usual, min(mail_conf["FINAL_TIMEOUT"], left)))

    @contextmanager
    def _timeout_kept(self) -> Iterator[None]:
        usual = self.sock.gettimeout() if self.sock else None
        yield
        if self.sock:
            self.sock.settimeout(usual)


class ListeningBackend(Backend):
    """Mixed into Django's SMTP backend, and into what projects have made of it."""

    conversation: Conversation

    @property
    def connection_class(self) -> Any:
        return self._connect

    def _connect(self, *args: Any, **options: Any) -> Any:
        kind: Any = super().connection_class
        client = _with(Listening, kind)(*args, **options)
        # Not the conversation itself: the backend may connect anew in the middle of one.
        client.listener = self
        return client


def conversation_on(backend: Any, until: float) -> Conversation | None:
    """A fresh record of what is said from now on; None where nobody listens."""
    if not isinstance(backend, ListeningBackend) or backend.connection is None:
        return None
    backend.conversation = Conversation(until)
    return backend.conversation


def listening(backend: Any) -> Any:
    """Return the backend, which listens now if it is one for SMTP."""
    kind: Any = type(backend)
    if isinstance(backend, smtp.EmailBackend) and not issubclass(kind, ListeningBackend):
        backend.__class__ = _with(ListeningBackend, kind)
    return backend


@cache
def _with(mixin: Any, kind: Any) -> Any:
    return type(kind.__name__, (mixin, kind), {})
