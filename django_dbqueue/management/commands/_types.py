"""What the words of a command line must be: for argparse, which tells of a ``ValueError``."""

from argparse import ArgumentTypeError

from django.db import connections

from ...backoff import Backoff, Fixed, Listed
from ...conf import ProcessRange
from ...lifecycle.policy import MAX_SECONDS
from ...worker.queue_order import QueueOrder, parse_order


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


def positive(text: str) -> int:
    number = int(text)
    if not 1 <= number < 2**31:
        raise ValueError
    return number


def count(text: str) -> int:
    return int(text) and positive(text)


def seconds(text: str) -> float:
    number = float(text)
    if not 0 <= number <= MAX_SECONDS:
        raise ValueError
    return number


def pauses(text: str) -> Backoff:
    """``20`` or ``10,60,300`` seconds."""
    numbers = tuple(seconds(part) for part in text.split(","))
    return Fixed(numbers[0]) if len(numbers) == 1 else Listed(numbers)
