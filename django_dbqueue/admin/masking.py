"""Keeps secrets out of what the admin shows and exports."""

from collections.abc import Collection
from typing import Any

MASK = "********"
# Parts of names, without their separators.
SENSITIVE = (
    *("password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey"),
    *("privatekey", "authorization", "cookie", "session", "credential", "signature"),
    *("creditcard", "cardnumber", "cvv", "cvc", "iban", "pincode", "otp"),
)
DEEPEST = 50


def is_sensitive(name: object, more: Collection[str] = ()) -> bool:
    """Whether a name looks like that of a secret; ``more`` adds names."""
    bare = _bare(str(name))
    return any(part in bare for part in (*SENSITIVE, *map(_bare, more)))


def _bare(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def masked(value: Any, more: Collection[str] = ()) -> Any:
    """The value with what stands under sensitive keys replaced, however deep; what lies deeper
    than 50 levels is left out."""
    return _masked(value, more, DEEPEST)


def _masked(value: Any, more: Collection[str], depth: int) -> Any:
    if isinstance(value, dict | list | tuple) and not depth:
        return "..."
    if isinstance(value, dict):
        return {
            key: MASK if is_sensitive(key, more) else _masked(one, more, depth - 1)
            for key, one in value.items()
        }
    if isinstance(value, list | tuple):
        return [_masked(one, more, depth - 1) for one in value]
    return value
