"""Commands that are answered one by one, outside the transaction of the broker's turn: they take
little of anybody else's time."""

import logging
import time
from collections import deque
from collections.abc import Iterable
from typing import Any

from django.db.utils import Error

from ..dialects import ErrorKind
from . import commands, replies
from .answers import Asked, answered
from .faults import is_locked, kind_of
from .inbox import Wanted
from .state import Client, State
from .transactions import Transactions

logger = logging.getLogger("django_dbqueue")

ANSWERING_SECONDS, ANSWERS_AT_ONCE = 0.002, 20  # of each turn of the broker
CROWD = 10  # Where more ask at once, they leave the broker to others for twice the time they took.
REST = 2
LONG_SECONDS = 0.02  # The same where few have asked for what takes longer.
LOSSES_MAX = 2  # of connections, by who asks one thing
REST_AFTER_LOSS = 1.0  # seconds at most: nobody knows whether it was an outage
# What they are answered does not depend on who asks, or on the tube alone that it uses.
SAME_FOR_ALL = {
    *(commands.Stats, commands.StatsTube, commands.StatsJob, commands.ListTubes, commands.Peek),
}
SAME_IN_A_TUBE = {commands.PeekReady, commands.PeekDelayed, commands.PeekBuried}


class OneByOne:
    """Who wants something that is no change of a job, in the order in which they came.

    Those who have come when the first of them is answered share what is looked up for one.
    """

    def __init__(self) -> None:
        self._asked: deque[Wanted] = deque()
        self._sharing: deque[Wanted] = deque()
        self._known: dict[str, Any] = {}
        self._answers: dict[Any, bytes] = {}
        self._at = 0.0
        self._losses = 0  # of connections, by the first of them

    def __bool__(self) -> bool:
        return bool(self._asked or self._sharing)

    def add(self, asked: Iterable[Wanted]) -> None:
        self._asked += asked

    @property
    def due_at(self) -> float:
        """When it is their turn."""
        return self._at if self else float("inf")

    def answer_some(self, transactions: Transactions, state: State) -> None:
        """A few, for a while; those are left for later who need what somebody has locked."""
        began = now = time.monotonic()
        if began < self.due_at:
            return
        is_crowd, count = len(self._asked) + len(self._sharing) > CROWD, 0
        if not self._sharing:
            self._sharing, self._asked = self._asked, self._sharing
            self._known, self._answers = {}, {}
        most = REST_AFTER_LOSS
        try:
            while self._sharing and count < ANSWERS_AT_ONCE and now <= began + ANSWERING_SECONDS:
                self._answer_first(transactions, state)
                count, now = count + 1, time.monotonic()
            most = float("inf")
        finally:
            now = time.monotonic()
            rests = is_crowd or now > began + LONG_SECONDS
            self._at = now + min(most, REST * (now - began)) if rests else now

    def _answer_first(self, transactions: Transactions, state: State) -> None:
        client, command = self._sharing[0]
        asked = Asked(transactions.table, state, client, command, self._known)
        try:
            if not client.is_gone:
                transactions.reply(client, self._answer(asked))
        except Error as error:
            if is_locked(asked.table, error):
                transactions.put_later([(client, command)])
            elif self._is_given_up(asked, error):
                transactions.reply(client, replies.INTERNAL_ERROR)
                self._pass()
                raise
            else:
                raise
        self._pass()

    def _pass(self) -> None:
        """To the next one."""
        self._sharing.popleft()
        self._losses = 0

    def _is_given_up(self, asked: Asked[Any], error: Error) -> bool:
        """Whether its connection is lost a second time: it would be given up each time, and hold up
        all others."""
        self._losses += kind_of(asked.table, error) is ErrorKind.LOST
        if self._losses < LOSSES_MAX:
            return False
        logger.error("%s cannot be answered: %s", type(asked.command).__name__, error)
        question = _question(asked.client, asked.command)
        if question is not None:
            self._answers[question] = replies.INTERNAL_ERROR
        return True

    def _answer(self, asked: Asked[Any]) -> bytes:
        question = _question(asked.client, asked.command)
        answer = self._answers.get(question)
        if answer is None:
            answer = answered(asked)
            if question is not None:
                self._answers[question] = answer
        return answer


def _question(client: Client, command: Any) -> Any:
    """Equal where the answers are; None where nobody else has the same one."""
    kind = type(command)
    if kind in SAME_FOR_ALL:
        return kind, command
    return (kind, client.used) if kind in SAME_IN_A_TUBE else None
