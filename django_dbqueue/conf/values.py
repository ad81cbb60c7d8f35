"""Values of settings by the type of their default, from the environment and from ``settings``;
``ImproperlyConfigured`` names one that is of another type."""

import json
import math
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from ..exceptions import shown

# By the type of a default, which ones do for it.
KINDS: dict[type, tuple[type, ...]] = {
    bool: (bool,),
    float: (int, float),
    tuple: (list, tuple),
    type(None): (str, type(None)),
}


YES = {"1", "true", "yes", "on"}
NO = {"0", "false", "no", "off", ""}


def from_text(key: str, text: str, default: Any) -> Any:
    if isinstance(default, bool):
        return _read_bool(f"DBQUEUE_{key}", text)
    if default is None or isinstance(default, str):
        return text
    if isinstance(default, tuple):
        return tuple(filter(None, (word.strip() for word in text.split(","))))
    if isinstance(default, dict):
        return _read_json(f"DBQUEUE_{key}", text)
    try:
        number = type(default)(text)
    except ValueError:
        kind = type(default).__name__
        raise ImproperlyConfigured(f"DBQUEUE_{key} must be of type {kind}, not {text!r}") from None
    return _finite(f"DBQUEUE_{key}", number)


def _read_bool(name: str, text: str) -> bool:
    word = text.strip().lower()
    if word not in YES | NO:
        raise ImproperlyConfigured(f"{name} must be true or false, not {shown(text)}")
    return word in YES


def _read_json(name: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ImproperlyConfigured(f"{name} must be an object in JSON, not {shown(text)}")
    return value


def of_type(key: str, value: Any, default: Any) -> Any:
    """A value of the settings; a whole number does for any number, text for what may be None."""
    name = f"DBQUEUE[{key!r}]"
    if type(default) is int and isinstance(value, float) and value.is_integer():
        return int(value)
    right = KINDS.get(type(default), (type(default),))
    if not isinstance(value, right) or (isinstance(value, bool) and bool not in right):
        kind = " or ".join(one.__name__ for one in right)
        raise ImproperlyConfigured(f"{name} must be of type {kind}, not {shown(value)}")
    return _finite(name, value)


def _finite(name: str, value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise ImproperlyConfigured(f"{name} must be a finite number, not {value}")
    return value
