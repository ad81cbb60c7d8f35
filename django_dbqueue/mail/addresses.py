"""The many spellings of one address."""

import unicodedata
from email.utils import unquote


def canonical(address: str) -> tuple[str, str]:
    """Local part and domain, as they are the same for every spelling of a bare address: in small
    letters, without quotes, the domain in Unicode."""
    local, _, domain = address.strip().rpartition("@")
    return unicodedata.normalize("NFC", unquote(local)).lower(), readable(domain)


def readable(domain: str) -> str:
    """A domain in Unicode and small letters."""
    labels = unicodedata.normalize("NFC", domain.strip().rstrip(".")).lower().split(".")
    return ".".join(map(_decoded, labels))


def _decoded(label: str) -> str:
    if not label.startswith("xn--"):
        return label
    try:
        return label[4:].encode("ascii").decode("punycode")
    except UnicodeError:
        return label
