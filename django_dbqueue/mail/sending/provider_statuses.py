"""What packages of mail providers say of a message that they have sent."""

from typing import Any

from ...guard import clean
from ..deliveries import Delivery, Outcome, address_of, delivery
from ..models.provider import NAME_MAX_CHARS

# Of django-anymail's statuses. What is sent or queued there is the provider's business.
REFUSED_BY_PROVIDER = {"rejected", "invalid", "failed"}


def provider_statuses(message: Any) -> tuple[list[str], dict[str, Delivery]]:
    """What the packages of mail providers, anymail above all, leave on a message that they have
    sent: the provider's names for it, one for all or one for each recipient, and by address what
    it says; nothing where none did."""
    status = getattr(message, "anymail_status", None)
    found = {}
    for address, one in (getattr(status, "recipients", None) or {}).items():
        word = str(getattr(one, "status", "unknown"))
        outcome = Outcome.REFUSED if word in REFUSED_BY_PROVIDER else Outcome.DELIVERED
        text = " ".join([word, *_names(getattr(one, "message_id", None))])
        found[address_of(address)] = delivery(outcome, None, text)
    return _names(getattr(status, "message_id", None)), found


def _names(given: Any) -> list[str]:
    several = given if isinstance(given, (set, frozenset, list, tuple)) else [given]
    return sorted({clean(str(one))[:NAME_MAX_CHARS] for one in several if one})
