"""The turns of those who change no job: they take little of anybody else's time."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from ..lifecycle.table import Table
from . import commands
from .answers import Asked, answered
from .inbox import Wanted
from .state import Client, State

LOOK_SECONDS = 0.002  # of each turn of the broker
# What they are answered does not depend on who asks, or on the tube alone that it uses.
SAME_FOR_ALL = {
    *(commands.Stats, commands.StatsTube, commands.StatsJob, commands.ListTubes, commands.Peek),
}
SAME_IN_A_TUBE = {commands.PeekReady, commands.PeekDelayed, commands.PeekBuried}


def answer_some(
    table: Table, state: State, asked: Sequence[Wanted], reply: Callable[[Client, bytes], object]
) -> list[Wanted]:
    """Answer for a while, and after that what was answered to somebody already; what is left."""
    end = time.monotonic() + LOOK_SECONDS
    known: dict[str, Any] = {}
    answers: dict[Any, bytes] = {}
    left: list[Wanted] = []
    for number, (client, command) in enumerate(asked):
        question = _question(client, command)
        answer = answers.get(question)
        if answer is None:
            if number and time.monotonic() >= end:
                left.append((client, command))
                continue
            answer = answered(Asked(table, state, client, command, known))
            if question is not None:
                answers[question] = answer
        reply(client, answer)
    return left


def _question(client: Client, command: Any) -> Any:
    """Equal where the answers are; None where nobody else has the same one."""
    kind = type(command)
    if kind in SAME_FOR_ALL:
        return kind, command
    return (kind, client.used) if kind in SAME_IN_A_TUBE else None
