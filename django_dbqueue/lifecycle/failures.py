"""Failures of one kind, told from others: an exception of one class, at one place of the code, and
with the same words once what differs from job to job is taken out of them."""

import re
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2s
from pathlib import Path
from typing import Any

FINGERPRINT_BYTES = 6
FINGERPRINT_CHARS = 16  # of the column
PART_CHARS = 200  # of a class's path, a place, and words
WORDS_CHARS = 500  # of a message, that are looked at
# What an UPDATE writes that records a failure.
RECORDED = "errors = %s, failure = %s"

OURS = str(Path(__file__).parents[1])
INSTALLED = ("/site-packages/", "/dist-packages/", "\\site-packages\\")
STANDARD = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))
# A line of a stack that faulthandler has written.
FRAME = re.compile(r'File "([^"]+)", line \d+ in (\S+)')
VARYING = re.compile(
    r"(?P<uuid>\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b)"
    r"|(?P<address>(?<![^\s@<>'\"(),;:])[^\s@<>'\"(),;:]++@[^\s@<>'\"(),;]++)"
    r"|(?P<value>(?<!\w)(?:'[^'\n]*'|\"[^\"\n]*\"|`[^`\n]*`)(?!\w))"
    r"|(?P<hex>\b0x[0-9a-fA-F]+|\b(?=[a-fA-F]*\d)[0-9a-fA-F]{8,}\b)"
    r"|(?P<number>\d+(?:[.,:]\d+)*)"
)
SHOWN_AS = {"uuid": "<uuid>", "address": "<address>", "value": "'..'", "hex": "<hex>"}
LIST = re.compile(r"(#|'\.\.'|<(?:uuid|address|hex)>)(?:, ?\1)+")


@dataclass(frozen=True, slots=True)
class Failure:
    """One kind. ``exception`` is the path of its class, ``place`` a function of the project's, or
    '' where nobody knows, and ``words`` are those of the message without its values."""

    fingerprint: str
    exception: str
    place: str
    words: str


def failure_of(entry: Mapping[str, Any], words: str | None = None) -> Failure:
    """The kind that an entry of ``errors`` is of; ``words`` are what its message says in all cases
    alike, where that is known."""
    exception = _text(entry, "class") or _text(entry, "exception")
    parts = (
        exception[:PART_CHARS],
        _text(entry, "place")[:PART_CHARS],
        without_values(_text(entry, "message") if words is None else words),
    )
    digest = blake2s("\n".join(parts).encode(), digest_size=FINGERPRINT_BYTES)
    return Failure(digest.hexdigest(), *parts)


def _text(entry: Mapping[str, Any], name: str) -> str:
    value = entry.get(name)
    return value if isinstance(value, str) else ""


def without_values(message: str) -> str:
    """The first line, without numbers, addresses, quoted values, uuids and hexadecimal ones."""
    line = message[:WORDS_CHARS].strip().partition("\n")[0]
    text = VARYING.sub(lambda found: SHOWN_AS.get(str(found.lastgroup), "#"), line)
    return LIST.sub(r"\1, ..", text)[:PART_CHARS]


def place_of(error: BaseException) -> str:
    """The innermost function of the project's that an exception came through, else the innermost
    one of others; numbers of lines would change with each release."""
    found, step = "", error.__traceback__
    is_of_project = False
    while step is not None:
        code = step.tb_frame.f_code
        is_theirs = _is_of_project(code.co_filename)
        if is_theirs or (not is_of_project and not code.co_filename.startswith(OURS)):
            module = step.tb_frame.f_globals.get("__name__")
            found, is_of_project = f"{module}.{code.co_qualname}", is_theirs
        step = step.tb_next
    return found


def place_in(stack: str) -> str:
    """The outermost function of the project's in a stack that was written while a process was
    stopped; the innermost one is where it happened to be."""
    frames = [(path, name) for path, name in FRAME.findall(stack) if _is_of_project(path)]
    return f"{_module_of(frames[-1][0])}.{frames[-1][1]}" if frames else ""


@lru_cache(maxsize=1000)
def _is_of_project(path: str) -> bool:
    """Neither ours, nor installed, nor the language's own."""
    if path.startswith((OURS, "<")) or any(part in path for part in INSTALLED):
        return False
    return not path.startswith(STANDARD)


def _module_of(path: str) -> str:
    roots = [root for root in sys.path if root and path.startswith(root)]
    rest = path[len(max(roots, key=len, default="")) :]
    return rest.removesuffix(".py").strip("/\\").replace("/", ".").replace("\\", ".")
