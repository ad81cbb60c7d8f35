"""What a client is answered, as bytes."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ..states import Status
from .protocol import CRLF, TUBE
from .rows import Body, JobStats

BURIED = b"BURIED\r\n"
DEADLINE_SOON = b"DEADLINE_SOON\r\n"
DELETED = b"DELETED\r\n"
DRAINING = b"DRAINING\r\n"
INTERNAL_ERROR = b"INTERNAL_ERROR\r\n"
KICKED = b"KICKED\r\n"
NOT_FOUND = b"NOT_FOUND\r\n"
NOT_IGNORED = b"NOT_IGNORED\r\n"
OUT_OF_MEMORY = b"OUT_OF_MEMORY\r\n"
PAUSED = b"PAUSED\r\n"
RELEASED = b"RELEASED\r\n"
TIMED_OUT = b"TIMED_OUT\r\n"
TOUCHED = b"TOUCHED\r\n"

STATES = {
    Status.READY: "ready",
    Status.CLAIMED: "reserved",
    Status.DELAYED: "delayed",
    Status.BURIED: "buried",
}


def line(word: str, value: object) -> bytes:
    """As ``USING default``."""
    return f"{word} {value}\r\n".encode()


def job(word: str, found: Body) -> bytes:
    """A body, after the word ``RESERVED`` or ``FOUND``."""
    return b"%s %d %d\r\n%s\r\n" % (word.encode(), found.id, len(found.body), found.body)


def names(found: Iterable[str]) -> bytes:
    """A list of tubes; what is none, since Django has enqueued there, comes in quotes."""
    shown = (name if TUBE.fullmatch(name.encode()) else quoted(name) for name in found)
    return _document("".join(f"- {name}\n" for name in shown))


def values(found: Mapping[str, object]) -> bytes:
    """A document of names and values; text that is no plain word comes in quotes."""
    return _document("".join(f"{name}: {value}\n" for name, value in found.items()))


def job_stats(stats: JobStats) -> bytes:
    found: dict[str, Any] = {
        "id": stats.id,
        "tube": quoted(stats.tube),
        "state": STATES[stats.status],
        "pri": stats.priority,
        "age": int(stats.age),
        "delay": stats.delay,
        "ttr": stats.ttr,
        "time-left": int(stats.time_left),
        "file": 0,
    }
    for name in ("reserves", "timeouts", "releases", "buries", "kicks"):
        found[name] = getattr(stats, name)
    return values(found)


def quoted(text: str) -> str:
    """As YAML has it, and JSON."""
    return json.dumps(text, ensure_ascii=False)


def _document(text: str) -> bytes:
    body = f"---\n{text}".encode()
    return b"OK %d\r\n%s%s" % (len(body), body, CRLF)
