"""What the packages of mail providers, or a project, have set on a message: to JSON and back."""

import sys
from collections.abc import Collection, Iterator
from datetime import date, datetime
from typing import Any

from django.core.mail import EmailMessage, EmailMultiAlternatives
from django.utils.functional import Promise


def encode(message: EmailMessage, known: Collection[str]) -> dict[str, Any]:
    """Return the attributes that are not ``known`` ones of Django's own messages.

    Those that begin with an underscore are left out. ``ValueError`` names what is neither plain
    data nor, as a whole, a date.
    """
    extra, moments = {}, {}
    for name, value in sorted(_attributes(message).items()):
        if name in known or name.startswith("_") or _is_unset(value):
            continue
        if isinstance(value, date):
            moments[name] = value.isoformat()
        else:
            extra[name] = _plain(value, name)
    return {"extra": extra, **({"moments": moments} if moments else {})}


def decode(stored: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the names and values that ``encode`` returned."""
    yield from stored["extra"].items()
    for name, text in stored.get("moments", {}).items():
        yield name, datetime.fromisoformat(text) if "T" in text else date.fromisoformat(text)


def _attributes(message: EmailMessage) -> dict[str, Any]:
    """Its own, and plain data in the body of its class, as in ``tags = ["invoice"]`` there."""
    found: dict[str, Any] = {}
    for kind in reversed(type(message).__mro__):
        if not issubclass(EmailMultiAlternatives, kind):
            found.update({name: v for name, v in vars(kind).items() if _is_data(v)})
    return found | vars(message)


def _is_data(value: Any) -> bool:
    return isinstance(value, (str, bool, int, float, dict, list, tuple, date, Promise))


def _is_unset(value: Any) -> bool:
    # What an AnymailMessage bears until something else is set.
    anymail = sys.modules.get("anymail.utils")
    return anymail is not None and value is getattr(anymail, "UNSET", anymail)


def _plain(value: Any, part: str) -> Any:
    if isinstance(value, Promise):
        return str(value)
    if isinstance(value, dict):
        return {_plain_key(k, part): _plain(v, f"{part}[{k!r}]") for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, f"{part}[{i}]") for i, item in enumerate(value)]
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    raise ValueError(f"{part} cannot be stored as JSON: {value!r:.80}")


def _plain_key(key: Any, part: str) -> str:
    if not isinstance(key, (str, Promise)):
        raise ValueError(f"{part} must have text keys to be stored as JSON, not {key!r}")
    return str(key)
