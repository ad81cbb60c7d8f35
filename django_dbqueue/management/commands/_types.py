"""What the words of a command line must be, for argparse: an error says what is allowed."""

from argparse import ArgumentTypeError
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from django.db import connections
from django.utils.translation import gettext as _

from ...backoff import Backoff, Fixed, Listed
from ...conf import conf
from ...conf.bounds import ProcessRange, Range
from ...conf.queue_order import QueueOrder, parse_order
from ...lifecycle.policy import MAX_SECONDS
from ...texts.wording import said

INT_MAX = 2**31 - 1


def order(text: str) -> QueueOrder:
    try:
        return parse_order(text)
    except ValueError as error:
        raise ArgumentTypeError(said(error)) from error


def alias(text: str) -> str:
    if text not in connections:
        why = _("%(name)s is no database alias; known: %(known)s")
        raise ArgumentTypeError(why % {"name": repr(text), "known": ", ".join(connections)})
    return text


def processes(text: str) -> ProcessRange:
    try:
        return ProcessRange.read(text)
    except ValueError as error:
        raise ArgumentTypeError(said(error)) from error


def of_setting(name: str) -> Callable[[str], Any]:
    """What an option takes that has a setting of the same name: the same, within its bounds."""
    bounds, kind = conf.bounds[name], type(conf.defaults[name])

    def read(text: str) -> Any:
        with suppress(ValueError):
            value = kind(text)
            bounds.check(value)
            return value
        if isinstance(bounds, Range):
            raise ArgumentTypeError(_out_of(bounds, kind, text))
        raise ArgumentTypeError(_("must not be empty, as %(given)s is") % {"given": repr(text)})

    return read


def _out_of(bounds: Range, kind: type, text: str) -> str:
    why = _("must be a number of at least %(least)s and at most %(most)s seconds, not %(given)s")
    if kind is int:
        why = _("must be a whole number of at least %(least)s and at most %(most)s, not %(given)s")
    return why % {"least": f"{bounds.least:g}", "most": f"{bounds.most:.0f}", "given": repr(text)}


def some(text: str) -> str:
    if not text.strip():
        raise ArgumentTypeError(_("must not be empty"))
    return text


def positive(text: str) -> int:
    return _whole(text, 1)


def connections_at_once(text: str) -> int:
    return _whole(text, 1, 1_000_000)


def _whole(text: str, least: int, most: int = INT_MAX) -> int:
    with suppress(ValueError):
        if least <= int(text) <= most:
            return int(text)
    why = _("must be a whole number from %(least)s to %(most)s, not %(given)s")
    raise ArgumentTypeError(why % {"least": least, "most": most, "given": repr(text)})


def seconds(text: str) -> float:
    with suppress(ValueError):
        if 0 <= float(text) <= MAX_SECONDS:
            return float(text)
    why = _("must be a number of seconds from 0 to %(most)s, not %(given)s")
    raise ArgumentTypeError(why % {"most": MAX_SECONDS, "given": repr(text)})


def pauses(text: str) -> Backoff:
    """``20`` or ``10,60,300`` seconds."""
    numbers = tuple(seconds(part) for part in text.split(","))
    return Fixed(numbers[0]) if len(numbers) == 1 else Listed(numbers)
