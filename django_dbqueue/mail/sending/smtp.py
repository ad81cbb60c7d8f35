"""Django's SMTP backend, with everything kept that the server says about a message."""

import smtplib
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from django.core.mail.backends import smtp

if TYPE_CHECKING:
    Client = smtplib.SMTP
    Backend = smtp.EmailBackend
else:
    Client = Backend = object

Answer = tuple[int, bytes]


@dataclass
class Conversation:
    """What a server said about one message."""

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
        answer = super().data(msg)
        self.listener.conversation.is_in_doubt = False
        self.listener.conversation.end = answer
        return answer

    def send(self, s: Any) -> None:
        super().send(s)
        # Commands are text; bytes are a message, with its final dot.
        if isinstance(s, bytes):
            self.listener.conversation.is_in_doubt = True


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


def conversation_on(backend: Any) -> Conversation | None:
    """A fresh record of what is said from now on; None where nobody listens."""
    if not isinstance(backend, ListeningBackend) or backend.connection is None:
        return None
    backend.conversation = Conversation()
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
