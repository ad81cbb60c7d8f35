"""What clients want that cannot be done in one transaction: in smaller ones, down to one each."""

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.db.utils import Error

from ..exceptions import QueueFull
from ..lifecycle.limits import limits_of
from . import commands, replies
from .faults import FAULTS, is_locked, is_to_be_repeated
from .inbox import Wanted
from .transactions import Transactions
from .verbs import VERBS

logger = logging.getLogger("django_dbqueue")


def write_apart(writing: Mapping[type[Any], Sequence[Wanted]], transactions: Transactions) -> None:
    """Who asked for what the database or a full tube refuses is told; what somebody has locked is
    left for later; the others' is done."""
    for kind, given in _parts(writing):
        try:
            if len(given) == 1 or not _is_done(kind, given, transactions):
                _one_by_one(kind, given, transactions)
        except Error as error:
            if not is_locked(transactions.table, error):
                raise
            transactions.put_later(given)


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


def _is_done(kind: type[Any], given: Sequence[Wanted], transactions: Transactions) -> bool:
    try:
        transactions.run(lambda turn: VERBS[kind](turn, given))
    except FAULTS as error:
        if is_to_be_repeated(transactions.table, error):
            raise
        return False
    return True


def _one_by_one(kind: type[Any], given: Sequence[Wanted], transactions: Transactions) -> None:
    refused = float("inf")  # the priority from which on no other put gets in
    for one in given:
        client, command = one
        if kind is commands.Put and command.priority >= refused:
            transactions.reply(client, replies.OUT_OF_MEMORY)
            continue
        try:
            turn = transactions.run(lambda turn, one=one: VERBS[kind](turn, [one]))  # type: ignore[misc]
        except QueueFull as full:
            if refused == float("inf"):
                logger.warning("%s", full)
            transactions.reply(client, replies.OUT_OF_MEMORY)
            # A more urgent one has others make room for it, where any may be made.
            policy = limits_of(transactions.table.model, client.used)
            refused = command.priority if policy.when_full == "drop_oldest" else 0
        except FAULTS as error:
            if is_to_be_repeated(transactions.table, error):
                raise
            logger.exception("%s cannot be carried out", kind.__name__)
            transactions.reply(client, replies.INTERNAL_ERROR)
        else:
            if kind is commands.Put and turn.locked:
                # All that are left are for its tube, and those of a client are done in their order.
                transactions.put_later(given)
                return
