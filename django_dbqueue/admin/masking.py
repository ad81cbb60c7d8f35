"""Keeps secrets out of what the admin shows and exports."""

import json
import re
from collections.abc import Collection
from typing import Any

MASK = "********"
# Parts of names, without their separators.
SENSITIVE = (
    *("password", "passwd", "passphrase", "passcode", "secret", "token", "apikey", "accesskey"),
    *("private", "authorization", "cookie", "session", "credential", "signature", "bearer"),
    *("creditcard", "cardnumber", "pincode"),
)
# Whole words of names: as parts they are in others, too, as "pin" is in "shipping".
WORDS = frozenset({"auth", "pwd", "pass", "pin", "otp", "jwt", "ssn", "cvv", "cvc", "iban", "card"})
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# A key of the first kind names what a key of the second kind, next to it, holds.
NAMING, HOLDING = ("name", "key", "header", "field"), ("value", "values")
DEPTH_MAX = 50


def is_sensitive(name: object, more: Collection[str] = ()) -> bool:
    """Whether a name looks like that of a secret; ``more`` adds names."""
    bare = _bare(str(name))
    if any(part in bare for part in (*SENSITIVE, *map(_bare, more))):
        return True
    return any(word.lower() in WORDS for word in WORD.findall(str(name)))


def _bare(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def masked(value: Any, more: Collection[str] = ()) -> Any:
    """The value with what is under sensitive keys replaced, however deep, in JSON as text too,
    and next to sensitive names in pairs; what lies deeper than 50 levels is left out."""
    return _masked(value, more, DEPTH_MAX)


def _masked(value: Any, more: Collection[str], depth: int) -> Any:
    if isinstance(value, dict | list | tuple) and not depth:
        return "..."
    if isinstance(value, str):
        return _masked_text(value, more, depth)
    if isinstance(value, dict):
        # As ``{"name": "Cookie", "value": …}``.
        names = [one for key, one in value.items() if str(key).lower() in NAMING]
        is_secret = any(isinstance(name, str) and is_sensitive(name, more) for name in names)
        hidden = HOLDING if is_secret else ()
        return {
            key: MASK
            if str(key).lower() in hidden or is_sensitive(key, more)
            else _masked(one, more, depth - 1)
            for key, one in value.items()
        }
    if isinstance(value, list | tuple):
        # As ``["Authorization", …]``.
        if len(value) == 2 and isinstance(value[0], str) and is_sensitive(value[0], more):
            return [value[0], MASK]
        return [_masked(one, more, depth - 1) for one in value]
    return value


def _masked_text(text: str, more: Collection[str], depth: int) -> str:
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        held = json.loads(text)
        shown = _masked(held, more, max(0, depth - 1))
        return text if shown == held else json.dumps(shown, ensure_ascii=False)
    except json.JSONDecodeError:
        return text
    except (ValueError, RecursionError):
        return MASK  # too deep, or with numbers too long, to be looked through
