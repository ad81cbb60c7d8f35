"""To whom a message goes this time, and to whom it does not."""

from dataclasses import dataclass, field
from email.utils import getaddresses
from functools import cache
from typing import TYPE_CHECKING, Any, Self

from django.core.mail import EmailMessage

from ..conf import mail_conf
from ..deliveries import Deliveries, Delivery, Outcome, address_of, readable
from ..models.suppression import Suppression, normal

ORIGINAL = "X-Original-To"
LISTS = ("to", "cc", "bcc")
# What packages for providers keep by recipient.
BY_RECIPIENT = ("merge_data", "merge_headers", "merge_metadata")
UNREADABLE = "not sent: its personalizations are no list of dicts with to, cc and bcc"
UNKNOWN = "not sent: its personalizations name %s, who is none of its own recipients"
NOBODY = "not sent: its personalizations name nobody who is to have it now"
# A mailer that looks at headers may send by these to people whom nobody has judged.
ADDRESSING = {
    *("to", "cc", "bcc", "apparently-to"),
    *("resent-to", "resent-cc", "resent-bcc"),
}


if TYPE_CHECKING:
    Base = EmailMessage
else:
    Base = object


class Addressed(Base):
    """Mixed into a message. A mailer may have redirected it, left somebody out, or added a copy."""

    _envelope: "Envelope"

    def recipients(self) -> list[str]:
        return self._envelope.hand_over(super().recipients())


@cache
def _addressed(kind: Any) -> Any:
    return type(kind.__name__, (Addressed, kind), {})


@dataclass
class Envelope:
    """A message with the recipients that it is to be handed over for now."""

    message: EmailMessage
    recipients: list[str]
    # Others who get it in their place.
    instead: list[str] = field(default_factory=list)
    # Whom the mailer has handed it over for, in its order, which may be others.
    handed: list[str] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._withheld: set[str] = set()
        self._places: dict[str, int] = {}
        self._withhold(self.message.recipients())

    @property
    def handed_over_for(self) -> list[str]:
        return self.instead or self.recipients

    def narrow(self, recipients: list[str]) -> None:
        """Hand it over for these alone from now on."""
        others, self.recipients = self.recipients, recipients
        self._withhold(others)

    def _withhold(self, recipients: list[str]) -> None:
        """All of these that it is not to be handed over for."""
        self._wanted = set(map(address_of, self.handed_over_for))
        self._withheld |= set(map(address_of, recipients)) - self._wanted

    def address(self) -> None:
        """Make the message's own recipients those of the envelope."""
        message = self.message
        if self.instead:
            message.extra_headers[ORIGINAL] = ", ".join(self.recipients)
            message.to, message.cc, message.bcc = [*self.instead], [], []
        kind: Any = type(message)
        if not issubclass(kind, Addressed):
            message.__class__ = _addressed(kind)
        message._envelope = self  # type: ignore[attr-defined]

    def hand_over(self, recipients: list[str]) -> list[str]:
        """For whom, of these, however a mailer spells them: each address once."""
        given: dict[str, str] = {}
        for one in recipients:
            given.setdefault(address_of(one), one)
        new = given.keys() - self._wanted - self._withheld
        kept_back = set(map(normal, self._withheld)) if new else set()
        self.handed, self._places = [], {}
        for address, one in given.items():
            key = normal(address) if address in new else address
            if address in self._wanted or (address in new and key not in kept_back):
                self._places.setdefault(key, len(self.handed))
                self.handed.append(one)
        return [*self.handed]

    def place_of(self, recipient: str) -> int | None:
        """Of one of its own among those whom the mailer has handed it over for."""
        address = address_of(recipient)
        place = self._places.get(address)
        return self._places.get(normal(address)) if place is None else place

    def __deepcopy__(self, _memo: object) -> Self:
        # With a copy of the message that a mailer has made it is the same one.
        return self

    def address_headers(self) -> None:
        """The headers as well, for mailers that have no envelope next to them, as SMTP has.

        ``ValueError`` where they could send to people whom nobody has judged.
        """
        message, wanted = self.message, self.handed_over_for
        if entries := getattr(message, "personalizations", None):
            message.personalizations = self._narrowed(entries)  # type: ignore[attr-defined]
        for name in LISTS:
            setattr(message, name, [one for one in getattr(message, name) if one in wanted])
        known = set(map(address_of, wanted))
        for name in BY_RECIPIENT:
            given = getattr(message, name, None)
            if isinstance(given, dict):
                kept = {one: value for one, value in given.items() if address_of(one) in known}
                setattr(message, name, kept)
        if not (mail_conf["ALLOWED_DOMAINS"] or mail_conf["OVERRIDE_RECIPIENTS"]):
            return
        if getattr(message, "esp_extra", None):
            raise ValueError(
                "not sent: esp_extra may name recipients of its own, which MAIL_ALLOWED_DOMAINS "
                "and MAIL_OVERRIDE_RECIPIENTS cannot judge"
            )
        headers = message.extra_headers.items()
        message.extra_headers = {k: v for k, v in headers if k.lower() not in ADDRESSING}

    def _narrowed(self, entries: Any) -> list[dict[str, Any]]:
        """The personalizations of django-sendgrid-v5, which sends to the people in them, and to
        none of the message's own."""
        if self.instead:
            raise ValueError(
                "not sent: personalizations name recipients of their own, which "
                "MAIL_OVERRIDE_RECIPIENTS cannot redirect"
            )
        try:
            narrowed = [
                {k: self._wanted_of(v) if v and k in LISTS else v for k, v in entry.items()}
                for entry in entries
            ]
        except (AttributeError, KeyError, TypeError):
            raise ValueError(UNREADABLE) from None
        if not (kept := [entry for entry in narrowed if entry.get("to")]):
            raise ValueError(NOBODY)
        return kept

    def _wanted_of(self, people: Any) -> list[Any]:
        wanted, withheld = set(map(normal, self._wanted)), set(map(normal, self._withheld))
        kept = []
        for person in people:
            address = address_of(person["email"])
            key = normal(address)
            if address in self._wanted or key in wanted - withheld:
                kept.append(person)
            elif key not in withheld:
                raise ValueError(UNKNOWN % address)
        return kept


def envelope_for(message: EmailMessage, deliveries: Deliveries, *, refused_too: bool) -> Envelope:
    """Recipients that wait for a message; those that may not have it are noted in ``deliveries``.

    ``refused_too`` asks again for those who were refused.
    """
    waiting = deliveries.waiting(message.recipients(), refused_too=refused_too)
    allowed = [one for one in waiting if is_allowed(one)]
    rule = f"not in MAIL_ALLOWED_DOMAINS ({', '.join(mail_conf['ALLOWED_DOMAINS'])})"
    deliveries.note(set(waiting) - set(allowed), Delivery(Outcome.NOT_ALLOWED, text=rule))
    suppressed = Suppression.objects.among([address_of(one) for one in allowed])
    for address, row in suppressed.items():
        deliveries.note([address], Delivery(Outcome.SUPPRESSED, text=row.get_reason_display()))
    left = [one for one in allowed if address_of(one) not in suppressed]
    return Envelope(message, left, list(mail_conf["OVERRIDE_RECIPIENTS"]))


def is_allowed(recipient: str) -> bool:
    """Whether ``MAIL_ALLOWED_DOMAINS`` names the recipient's domain, or a domain above it."""
    known = [readable(one) for one in mail_conf["ALLOWED_DOMAINS"]]
    if not known or mail_conf["OVERRIDE_RECIPIENTS"]:
        return True
    # Some mailers read several addresses in one text: each of them has to be allowed.
    found = [address_of(bare).rpartition("@") for _, bare in getaddresses([recipient])]
    return bool(found) and all(at and _is_below(readable(one), known) for _, at, one in found)


def _is_below(domain: str, known: list[str]) -> bool:
    return any(domain == one or domain.endswith(f".{one}") for one in known)
