"""The moves of the game: what may be drawn, how often, and with what."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st


def picked(what):
    """One of the things that the machine has at the time."""
    return st.runner().flatmap(lambda machine: st.sampled_from(getattr(machine, what)))


def some(what):
    return st.runner().flatmap(
        lambda machine: st.lists(
            st.sampled_from(getattr(machine, what)), min_size=1, max_size=3, unique=True
        )
    )


@dataclass
class Move:
    name: str
    weight: int
    needs: str | None
    strategies: dict[str, Any] = field(repr=False)

    def is_possible(self, machine):
        return self.needs is None or bool(getattr(machine, self.needs))


MOVES = []


def move(weight=1, needs=None, **strategies):
    """A move of the game, drawn ``weight`` times as often as others, if there is what it needs.

    Were each a rule of its own, half of them would be left out of every game: few would get far.
    """

    def register(method):
        MOVES.append(Move(method.__name__, weight, needs, strategies))
        return method

    return register
