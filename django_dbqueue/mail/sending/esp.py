"""What the packages of mail providers, anymail above all, leave on a message they have sent."""

from typing import Any

from ..deliveries import Delivery, Outcome, address_of, delivery

# The words of django-anymail's statuses. What is sent or queued there is the provider's business.
TAKEN = {"sent", "queued", "unknown"}
REFUSED = {"rejected", "invalid", "failed"}
LONGEST_ID = 255


def statuses(message: Any) -> tuple[str | None, dict[str, Delivery]]:
    """The provider's name for the message, and by address what it says; nothing where none did."""
    status = getattr(message, "anymail_status", None)
    recipients = getattr(status, "recipients", None) or {}
    found = {address_of(address): _read(one) for address, one in recipients.items()}
    return _id(getattr(status, "message_id", None)), found


def _read(one: Any) -> Delivery:
    word = str(getattr(one, "status", "unknown"))
    outcome = Outcome.REFUSED if word in REFUSED else Outcome.DELIVERED
    said = " ".join(filter(None, [word, _id(getattr(one, "message_id", None))]))
    return delivery(outcome, None, said)


def _id(given: Any) -> str | None:
    """One for the whole message; where each recipient has its own, none is the message's."""
    if isinstance(given, (set, frozenset, list, tuple)):
        given = next(iter(given)) if len(given) == 1 else None
    return str(given)[:LONGEST_ID] if given else None
