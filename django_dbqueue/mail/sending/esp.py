"""What the packages of mail providers, anymail above all, leave on a message they have sent."""

from typing import Any

from ...guard import clean
from ..deliveries import Delivery, Outcome, address_of, delivery
from ..models.provider import LONGEST_NAME

# The words of django-anymail's statuses. What is sent or queued there is the provider's business.
TAKEN = {"sent", "queued", "unknown"}
REFUSED = {"rejected", "invalid", "failed"}


def statuses(message: Any) -> tuple[list[str], dict[str, Delivery]]:
    """The provider's names for the message, one for all or one for each recipient, and by address
    what it says; nothing where none did."""
    status = getattr(message, "anymail_status", None)
    recipients = getattr(status, "recipients", None) or {}
    found = {address_of(address): _read(one) for address, one in recipients.items()}
    return _names(getattr(status, "message_id", None)), found


def _read(one: Any) -> Delivery:
    word = str(getattr(one, "status", "unknown"))
    outcome = Outcome.REFUSED if word in REFUSED else Outcome.DELIVERED
    return delivery(outcome, None, " ".join([word, *_names(getattr(one, "message_id", None))]))


def _names(given: Any) -> list[str]:
    several = given if isinstance(given, (set, frozenset, list, tuple)) else [given]
    return sorted({clean(str(one))[:LONGEST_NAME] for one in several if one})
