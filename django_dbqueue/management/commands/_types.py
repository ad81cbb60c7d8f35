"""What the words of a command line must be, for argparse: an error says what is allowed."""

from argparse import ArgumentTypeError
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from django.db import connections

from ...backoff import Backoff, Fixed, Listed
from ...conf import conf
from ...conf.bounds import ProcessRange, Range
from ...conf.queue_order import QueueOrder, parse_order
from ...lifecycle.policy import MAX_SECONDS

INT_MAX = 2**31 - 1


def order(text: str) -> QueueOrder:
    try:
        return parse_order(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error


def alias(text: str) -> str:
    if text not in connections:
        raise ArgumentTypeError(f"{text!r} is no database alias; known: {', '.join(connections)}")
    return text


def processes(text: str) -> ProcessRange:
    try:
        return ProcessRange.read(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error


def of_setting(name: str) -> Callable[[str], Any]:
    """What an option takes that has a setting of the same name: the same, within its bounds."""
    bounds, kind = conf.bounds[name], type(conf.defaults[name])
    words = {int: "a whole number of ", float: "a number of "}

    def read(text: str) -> Any:
        with suppress(ValueError):
            value = kind(text)
            bounds.check(value)
            return value
        if isinstance(bounds, Range):
            raise ArgumentTypeError(f"must be {words[kind]}{bounds}, not {text!r}")
        raise ArgumentTypeError(f"must not be empty, as {text!r} is")

    return read


def some(text: str) -> str:
    if not text.strip():
        raise ArgumentTypeError("must not be empty")
    return text


def positive(text: str) -> int:
    return _whole(text, 1)


def connections_at_once(text: str) -> int:
    return _whole(text, 1, 1_000_000)


def _whole(text: str, least: int, most: int = INT_MAX) -> int:
    with suppress(ValueError):
        if least <= int(text) <= most:
            return int(text)
    raise ArgumentTypeError(f"must be a whole number from {least} to {most}, not {text!r}")


def seconds(text: str) -> float:
    with suppress(ValueError):
        if 0 <= float(text) <= MAX_SECONDS:
            return float(text)
    raise ArgumentTypeError(f"must be a number of seconds from 0 to {MAX_SECONDS}, not {text!r}")


def pauses(text: str) -> Backoff:
    """``20`` or ``10,60,300`` seconds."""
    numbers = tuple(seconds(part) for part in text.split(","))
    return Fixed(numbers[0]) if len(numbers) == 1 else Listed(numbers)
