"""One person's address in whatever spelling, and how it is taken out of texts and messages."""

import re
import unicodedata
from email.utils import parseaddr
from typing import Any

from ...exceptions import Told, gettext_noop
from ..deliveries import canonical, pieces
from ..storing.codec import ADDRESS_LISTS

ERASED = "erased"
# Next to the sender's own, which are From, Sender and Return-Path.
ADDRESS_HEADERS = {
    *("to", "cc", "bcc", "reply-to", "resent-to", "resent-cc", "resent-bcc", "resent-reply-to"),
    *("apparently-to", "delivered-to", "envelope-to", "x-envelope-to", "x-original-to"),
    *("disposition-notification-to", "return-receipt-to", "errors-to"),
    *("mail-followup-to", "mail-reply-to", "x-confirm-reading-to"),
}
SENDER_HEADERS = {"from", "sender", "return-path"}
WORDS = re.compile(r"[a-z0-9]+")


class Person:
    """Those who have this address; ``ValueError`` where it is none.

    Capitals, quotes around the local part, and a domain in Unicode or in punycode make no
    difference.
    """

    def __init__(self, address: str) -> None:
        bare = parseaddr(address)[1]
        local, domain = canonical(bare)
        if not local or not domain:
            text = gettext_noop("%(given)s is no address of mail, as someone@example.org")
            raise Told(text, given=repr(address))
        self.key = local, domain
        self._spelled = re.compile(_pattern(local, domain), re.IGNORECASE)

    def __str__(self) -> str:
        return "@".join(self.key)

    @property
    def needle(self) -> str:
        """What every spelling has in it, in small letters; '' where there is nothing."""
        return max(WORDS.findall(self.key[0]), key=len, default="")

    def is_at(self, address: str) -> bool:
        """Whether this is an address of theirs, with a name or without."""
        bare = parseaddr(address)[1]
        if "@" in bare:
            return canonical(bare) == self.key
        # What cannot be read as an address, as `Doe, Anna <anna@x.example>`.
        return self.is_in(address)

    def is_in(self, text: str) -> bool:
        return self._spelled.search(unicodedata.normalize("NFC", text)) is not None

    def out_of_text(self, text: str) -> str:
        """The text, with a word in the place of the address."""
        if not self.is_in(text):
            return text
        return self._spelled.sub(ERASED, unicodedata.normalize("NFC", text))

    def out_of_list(self, text: str) -> str:
        """Addresses between commas, without theirs."""
        found = pieces(text)
        kept = [piece for piece in found if not self.is_at(piece)]
        return self.out_of_text(text if kept == found else ", ".join(kept))

    def is_all_of(self, text: str) -> bool:
        """Whether there is an address, and none of somebody else."""
        found = pieces(text)
        return bool(found) and all(map(self.is_at, found))

    def out_of_any(self, value: Any) -> Any:
        """What JSON holds, without entries under the address, and with a word in its place."""
        if isinstance(value, str):
            return self.out_of_text(value)
        if isinstance(value, list):
            return [self.out_of_any(one) for one in value]
        if isinstance(value, dict):
            return {k: self.out_of_any(v) for k, v in value.items() if not self.is_at(k)}
        return value

    def out_of_message(self, stored: dict[str, Any]) -> dict[str, Any]:
        """A stored message that speaks of them in no address; its text is left as it is."""
        lists = {
            name: [kept for one in stored.get(name, ()) if (kept := self.out_of_list(one))]
            for name in ADDRESS_LISTS
        }
        headers = []
        for name, value in stored.get("headers", ()):
            if name.lower() in SENDER_HEADERS:
                kept = value
            elif name.lower() in ADDRESS_HEADERS:
                kept = self.out_of_list(value)
            else:
                kept = self.out_of_text(value)
            if kept or not value:
                headers.append([name, kept])
        extra = self.out_of_any(self._out_of_personalizations(stored["extra"]))
        return {**stored, **lists, "headers": headers, "extra": extra}

    def _out_of_personalizations(self, extra: dict[str, Any]) -> dict[str, Any]:
        """Without their places in it: with a word there the provider would refuse all of it."""
        try:
            kept = [self._out_of_entry(one) for one in extra["personalizations"]]
        except (AttributeError, KeyError, TypeError):
            return extra
        return {**extra, "personalizations": [one for one in kept if one.get("to")]}

    def _out_of_entry(self, entry: dict[str, Any]) -> dict[str, Any]:
        without: dict[str, Any] = {
            name: [one for one in entry[name] or () if not self.is_at(one["email"])]
            for name in ("to", "cc", "bcc")
            if name in entry
        }
        return {**entry, **without}


def _pattern(local: str, domain: str) -> str:
    """A regular expression for every spelling, which is not part of a longer address."""
    quoted = local.replace("\\", "\\\\").replace('"', '\\"')
    locals_ = "|".join([re.escape(local), re.escape(f'"{quoted}"')])
    labels = domain.split(".")
    coded = [o if o.isascii() else "xn--" + o.encode("punycode").decode() for o in labels]
    spelled = {domain, ".".join(coded)}
    try:
        spelled.add(domain.encode("idna").decode())  # as Django spells it when it sends
    except UnicodeError:
        pass
    domains = "|".join(map(re.escape, spelled))
    return rf"(?<![\w.!#$%&'*+/=?^`{{|}}~-])(?:{locals_})@(?:{domains})(?![\w-]|\.\w)"
