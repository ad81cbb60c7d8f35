"""Sending one queued message through the mailer that the project has configured."""

from typing import TYPE_CHECKING, Any

from django.core.mail import EmailMessage

from ..exceptions import Bury, DBQueueError
from .connections import connection
from .outcomes import NotTaken, classify, explain

if TYPE_CHECKING:
    from .models import Email


def send(email: "Email") -> None:
    """Deliver the message; it may be delivered twice if the process dies after the server took it.

    A temporary error is raised as it is, so that the job is retried; a final one as ``Bury``
    with the server's code and text. No transaction is opened here.
    """
    try:
        message = email.to_message()
        with connection(email.using) as backend:
            transmit(backend, message)
    except DBQueueError:
        raise
    except Exception as error:  # why: what a message raises is its own outcome; the next is sent
        if classify(error) == "retry":
            raise
        raise Bury(explain(error)) from error


def transmit(backend: Any, message: EmailMessage) -> None:
    """Hand one message to an open backend; ``NotTaken`` when it reports none sent."""
    if backend.send_messages([message]) == 0:
        raise NotTaken("the mailer reported no error, but no message sent either")
