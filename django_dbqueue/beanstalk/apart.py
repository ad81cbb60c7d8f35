"""What clients want that cannot be done in one transaction: in smaller ones, down to one each."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from django.db.utils import Error

from ..exceptions import QueueFull
from ..lifecycle.table import Table
from . import commands, replies
from .faults import FAULTS, is_locked, is_to_be_repeated
from .inbox import Wanted
from .state import Client
from .verbs import VERBS, Turn

logger = logging.getLogger("django_dbqueue")
Transact: TypeAlias = Callable[[Callable[[Turn], None]], object]
Reply: TypeAlias = Callable[[Client, bytes], object]
Later: TypeAlias = Callable[[Sequence[Wanted]], object]


def write_apart(
    table: Table,
    writing: Mapping[type[Any], Sequence[Wanted]],
    transact: Transact,
    reply: Reply,
    later: Later,
) -> None:
    """Who asked for what the database or a full tube refuses is told; what somebody has locked is
    left for ``later``; the others' is done."""
    for kind, given in _parts(writing):
        try:
            if len(given) == 1 or not _is_done(table, kind, given, transact):
                _one_by_one(table, kind, given, transact, reply)
        except Error as error:
            if not is_locked(table, error):
                raise
            later(given)


def _parts(
    writing: Mapping[type[Any], Sequence[Wanted]],
) -> Iterator[tuple[type[Any], Sequence[Wanted]]]:
    """Those of a kind together; of the puts those into a tube, since one of them may be full."""
    for kind in VERBS:
        parts: dict[str, list[Wanted]] = defaultdict(list)
        for client, command in writing.get(kind, ()):
            parts[client.used if kind is commands.Put else ""].append((client, command))
        for part in parts.values():
            yield kind, part


def _is_done(table: Table, kind: type[Any], given: Sequence[Wanted], transact: Transact) -> bool:
    try:
        transact(lambda turn: VERBS[kind](turn, given))
    except FAULTS as error:
        if is_to_be_repeated(table, error):
            raise
        return False
    return True


def _one_by_one(
    table: Table, kind: type[Any], given: Sequence[Wanted], transact: Transact, reply: Reply
) -> None:
    refused = float("inf")  # the priority of a put that found its tube full: no other gets in
    for one in given:
        client, command = one
        if kind is commands.Put and command.priority >= refused:
            reply(client, replies.OUT_OF_MEMORY)
            continue
        try:
            transact(lambda turn, one=one: VERBS[kind](turn, [one]))  # type: ignore[misc]
        except QueueFull as full:
            logger.warning("%s", full)
            reply(client, replies.OUT_OF_MEMORY)
            refused = command.priority
        except FAULTS as error:
            if is_to_be_repeated(table, error):
                raise
            logger.exception("%s cannot be carried out", kind.__name__)
            reply(client, replies.INTERNAL_ERROR)
