"""The turns of those who change no job: they take little of anybody else's time."""

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from ..lifecycle.table import Table
from . import commands
from .answers import Asked, answered
from .inbox import Wanted
from .state import Client, State

LOOK_SECONDS = 0.002  # of each turn of the broker
CROWD = 10  # Where more ask at once, they leave the broker to others for twice the time they took.
REST = 2
# What they are answered does not depend on who asks, or on the tube alone that it uses.
SAME_FOR_ALL = {
    *(commands.Stats, commands.StatsTube, commands.StatsJob, commands.ListTubes, commands.Peek),
}
SAME_IN_A_TUBE = {commands.PeekReady, commands.PeekDelayed, commands.PeekBuried}


class Looks:
    """Who asks for something that changes no job, in the order in which they came."""

    def __init__(self) -> None:
        self._asked: deque[Wanted] = deque()
        self._at = 0.0

    def __bool__(self) -> bool:
        return bool(self._asked)

    def add(self, asked: Iterable[Wanted]) -> None:
        self._asked += asked

    @property
    def due_at(self) -> float:
        """When it is their turn."""
        return self._at if self._asked else float("inf")

    def answer_some(
        self, table: Table, state: State, reply: Callable[[Client, bytes], object]
    ) -> None:
        """For a while; after that only what was answered to somebody already."""
        began = time.monotonic()
        if began < self.due_at:
            return
        is_crowd, answers, known = len(self._asked) > CROWD, dict[Any, bytes](), dict[str, Any]()
        left: list[Wanted] = []
        try:
            while self._asked:
                client, command = self._asked[0]
                question = _question(client, command)
                answer = answers.get(question)
                if answer is None and answers and time.monotonic() >= began + LOOK_SECONDS:
                    left.append((client, command))
                elif not client.is_gone:
                    answer = answer or answered(Asked(table, state, client, command, known))
                    answers[question or (client, command)] = answer
                    reply(client, answer)
                self._asked.popleft()
        finally:
            self._asked.extendleft(reversed(left))
        now = time.monotonic()
        self._at = now + REST * (now - began) if is_crowd else now


def _question(client: Client, command: Any) -> Any:
    """Equal where the answers are; None where nobody else has the same one."""
    kind = type(command)
    if kind in SAME_FOR_ALL:
        return kind, command
    return (kind, client.used) if kind in SAME_IN_A_TUBE else None
