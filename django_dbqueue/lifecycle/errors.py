"""The ``errors`` column: one entry per failed attempt, the last ten."""

import json
import math
import socket
from datetime import UTC, datetime, timedelta
from traceback import TracebackException, format_tb
from typing import Any

from ..exceptions import recorded
from ..guard import MAX_MESSAGE_CHARS, capture, clean, words_of
from .failures import place_in, place_of

MAX_ERRORS = 10
MAX_TRACEBACK_BYTES = 8192
# They say what is to be done; their message says why.
VERBS = ("Bury", "Retry")
# What two entries of one failure have in common, whenever they were made.
SAME = ("attempt", "owner", "exception", "message")


def entry(
    error: BaseException,
    *,
    attempt: int,
    owner: str | None,
    seconds: float | None = None,
    claimed: Any = None,
    stack: str = "",
) -> dict[str, Any]:
    """What is kept of an exception: no local variables, at most 8 KiB of traceback.

    ``claimed`` is the database's. ``started`` is by this host's clock; None where nobody knows how
    long the attempt took.
    ``stack`` is the traceback where the process was stopped from outside. An error that a ``Retry``
    or ``Bury`` was raised for has the ``reason`` that it gave.
    """
    reason = str(error) if recorded(error) is not error else None
    error = recorded(error)
    kind = type(error)
    lines = _formatted(error) if error.__traceback__ else stack
    started = None if seconds is None else datetime.now(UTC) - timedelta(seconds=seconds)
    made = {
        "attempt": attempt,
        "owner": owner if owner is None else str(owner),
        "host": socket.gethostname(),
        "claimed": moment(claimed),
        "started": started and started.isoformat(timespec="milliseconds"),
        "seconds": None if seconds is None else round(seconds, 3),
        "exception": clean(kind.__name__),
        "class": clean(_path_of(kind)),
        "place": clean(place_of(error) or place_in(stack)),
        "message": clean(words_of(error)[:MAX_MESSAGE_CHARS])[:MAX_MESSAGE_CHARS],
        "traceback": clean(lines).encode()[-MAX_TRACEBACK_BYTES:].decode(errors="ignore"),
    }
    return made if reason is None else made | {"reason": clean(reason)}


def moment(value: Any) -> str | None:
    """What a column of an instant holds, as text; None where a hand wrote what is none."""
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else value
        return str(found.replace(tzinfo=UTC).isoformat(timespec="microseconds"))
    except (ValueError, AttributeError, TypeError):
        return None


def claimed_at(errors: Any) -> datetime | None:
    """When the attempt that failed last was claimed; None where nobody knows."""
    newest = entries(errors)[-1:]
    text = moment(newest[0].get("claimed")) if newest else None
    return None if text is None else datetime.fromisoformat(text)


def _path_of(kind: type) -> str:
    with capture():
        return f"{kind.__module__}.{kind.__qualname__}"
    return kind.__name__


def _formatted(error: BaseException) -> str:
    """With causes and names, unless one of these exceptions has a class that cannot be named."""
    with capture():
        return "".join(TracebackException.from_exception(error).format())
    return "".join([*format_tb(error.__traceback__), words_of(error)])


def appended(stored: Any, new: dict[str, Any]) -> str:
    """The column's JSON text with one more entry."""
    return json.dumps([*_entries(stored), new][-MAX_ERRORS:])


def is_among(stored: Any, new: dict[str, Any]) -> bool:
    """Whether the column holds this failure of this claim already."""
    return any(all(one.get(name) == new[name] for name in SAME) for one in _entries(stored))


def entries(errors: Any) -> list[dict[str, Any]]:
    """The column's entries, for people to read; what somebody else wrote there is a message."""
    items = errors if isinstance(errors, list) else [errors] if errors else []
    return [item if isinstance(item, dict) else {"message": item} for item in items]


def _entries(stored: Any) -> list[Any]:
    """What the column holds of ours; what somebody else wrote there, which a database may refuse to
    take once more, must not stop the job from being ended."""
    try:
        entries = json.loads(stored) if isinstance(stored, str | bytes) else stored
    except (ValueError, RecursionError):
        entries = None
    found = entries if isinstance(entries, list) else []
    return [one for one in found if isinstance(one, dict) and all(map(_is_plain, one.values()))]


def _is_plain(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, str | int)
