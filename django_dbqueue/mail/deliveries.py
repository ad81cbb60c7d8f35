"""What became of a message for each of its recipients: plain data, kept with the message; and the
many spellings of a recipient's address."""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import getaddresses, unquote
from enum import StrEnum
from functools import lru_cache
from typing import Any

TEXT_MAX_CHARS = 500  # of what a server says
# A piece of a list of addresses: quoted names and whole <addresses> are not divided.
PIECES = re.compile(r'(?:"(?:[^"\\]|\\.)*"|<[^>]*>|[^,"<]|["<])+')


class Outcome(StrEnum):
    DELIVERED = "delivered"
    REDIRECTED = "redirected"  # to MAIL_OVERRIDE_RECIPIENTS
    DEFERRED = "deferred"
    REFUSED = "refused"
    IN_DOUBT = "in doubt"
    SUPPRESSED = "suppressed"
    NOT_ALLOWED = "not allowed"  # by MAIL_ALLOWED_DOMAINS


SENT = {Outcome.DELIVERED, Outcome.REDIRECTED}
OPEN = {Outcome.DEFERRED, Outcome.IN_DOUBT}
MARK = "under_way"  # of a delivery that is being sent
RARE = {"doubts", MARK}  # they are stored only where they say something
CUT_OFF = "its worker died or was stopped"


def iso_seconds(moment: datetime | None = None) -> str:
    """In UTC, to the second; without a moment, now."""
    return (moment or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Delivery:
    """One recipient's outcome, with the server's code and text."""

    outcome: Outcome
    code: int | None = None
    text: str = ""
    at: str = field(default_factory=iso_seconds)
    # How often it was sent as a whole and not answered, by now.
    doubts: int = 0
    # It is being sent; where its run has ended, nobody has written how.
    under_way: bool = False

    def __str__(self) -> str:
        return " ".join(map(str, filter(None, [self.code, self.text]))) or str(self.outcome)

    def stored(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in RARE or value}


@lru_cache(1024)  # asked several times for each recipient of a message
def address_of(recipient: str) -> str:
    """The bare address of a recipient as a message has it, its domain in lower case: the key by
    which deliveries are kept."""
    found = getaddresses([recipient])
    # Two in one text are no address; some versions of parseaddr() would take the first.
    bare = (found[0][1] if len(found) == 1 else "") or recipient
    local, at, domain = bare.rpartition("@")
    return f"{local}{at}{domain.lower()}"


def pieces(text: str) -> list[str]:
    """The addresses between the commas of a text."""
    found = [piece.strip() for piece in PIECES.findall(text) if piece.strip()]
    whole: list[str] = []
    for piece in found:
        # Of a name with a comma in it, the beginning.
        if whole and "@" not in whole[-1] and piece.endswith(">"):
            whole[-1] += f", {piece}"
        else:
            whole.append(piece)
    return whole


def has_several(recipient: str) -> bool:
    """Whether one text holds the addresses of several people."""
    if recipient.count("@") < 2:  # asked for each recipient of each message
        return False
    return sum("@" in bare for _, bare in getaddresses([recipient])) > 1


def canonical(address: str) -> tuple[str, str]:
    """Local part and domain, as they are the same for every spelling of a bare address: in small
    letters, without quotes, the domain in Unicode."""
    local, _, domain = address.strip().rpartition("@")
    return unicodedata.normalize("NFC", unquote(local)).lower(), readable(domain)


def readable(domain: str) -> str:
    """A domain in Unicode and small letters."""
    labels = unicodedata.normalize("NFC", domain.strip().rstrip(".")).lower().split(".")
    for i, label in enumerate(labels):
        if label.startswith("xn--"):
            try:
                labels[i] = label[4:].encode("ascii").decode("punycode")
            except UnicodeError:
                pass  # it stays as it is
    return ".".join(labels)


class Deliveries:
    """By bare address, what is known; made from what a row holds, and back."""

    def __init__(self, stored: Any) -> None:
        found = stored if isinstance(stored, dict) else {}
        self.by_address = {
            address: read for address, entry in found.items() if (read := read_entry(entry))
        }

    def stored(self) -> dict[str, Any]:
        return {address: one.stored() for address, one in self.by_address.items()}

    def note(self, recipients: Iterable[str], delivery: Delivery) -> None:
        for recipient in recipients:
            address = address_of(recipient)
            known = self.by_address.get(address)
            doubts = (known.doubts if known else 0) + (delivery.outcome is Outcome.IN_DOUBT)
            self.by_address[address] = replace(delivery, doubts=doubts)

    def forget_doubts(self) -> None:
        """A person has decided: they count from here."""
        self.by_address = {a: replace(one, doubts=0) for a, one in self.by_address.items()}

    @property
    def is_under_way(self) -> bool:
        """Whether a run has begun to send it, and has not written how that ended."""
        return any(one.under_way for one in self.by_address.values())

    def note_cut_off(self) -> None:
        """That run is over."""
        for address, one in self.by_address.items():
            if one.under_way:
                self.by_address[address] = replace(one, text=CUT_OFF, under_way=False)

    def waiting(self, recipients: Iterable[str], *, refused_too: bool) -> list[str]:
        """Who has not got the message yet, each address once."""
        settled = SENT if refused_too else SENT | {Outcome.REFUSED}
        found: dict[str, str] = {}
        for recipient in recipients:
            address = address_of(recipient)
            known = self.by_address.get(address)
            if known is None or known.outcome not in settled:
                found.setdefault(address, recipient)
        return list(found.values())

    def having(self, outcomes: Iterable[Outcome]) -> dict[str, Delivery]:
        wanted = set(outcomes)
        return {a: one for a, one in self.by_address.items() if one.outcome in wanted}

    def doubtful(self) -> dict[str, Delivery]:
        """Who may have got it, whatever was said at a later attempt."""
        return {
            address: one
            for address, one in self.by_address.items()
            if one.outcome is Outcome.IN_DOUBT or (one.doubts and one.outcome not in SENT)
        }

    def summary(self) -> str:
        """Everybody who has not got the message, and why, in one line."""
        missing = self.having(set(Outcome) - SENT)
        return "; ".join(f"{address}: {one}" for address, one in missing.items())


def delivery(outcome: Outcome, code: int | None, text: str | bytes) -> Delivery:
    said = text.decode(errors="replace") if isinstance(text, bytes) else text
    said = said.replace("\0", "").encode(errors="replace").decode()
    return Delivery(outcome, code, " ".join(said.split())[:TEXT_MAX_CHARS])


def read_entry(entry: Any) -> Delivery | None:
    """What a hand has written may be anything."""
    try:
        code = entry.get("code") if isinstance(entry.get("code"), int) else None
        at, text = str(entry.get("at", "")), str(entry.get("text", ""))
        doubts = entry.get("doubts") if isinstance(entry.get("doubts"), int) else 0
        is_under_way = entry.get(MARK) is True
        return Delivery(Outcome(entry["outcome"]), code, text, at, doubts, is_under_way)
    except (AttributeError, KeyError, ValueError, TypeError):
        return None
