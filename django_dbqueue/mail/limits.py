"""How many recipients a mailer may serve in a second, a minute, a day: the arithmetic.

A bucket holds a period's worth of tokens, one a recipient; a token comes back one period after it
was taken. So no period, wherever it begins, sees more than the limit. (A bucket that is refilled
evenly lets twice as many through: all that it held, and what flows in meanwhile.)

Who finds none is promised a turn: a second bucket holds the tokens that were promised, each at the
time of its turn. It alone says when the next turn may be, and the first one alone who may be sent.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

PERIODS = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0}
# Tokens that were taken together come back together; so many groups are kept apart in a period.
GROUPS_PER_PERIOD = 32
# A token comes back so much later: messages do not all take equally long to arrive.
RETURN_DELAY_SECONDS = 0.03
# A promised one so much later still: who comes a little late for it returns it late.
PROMISE_DELAY_SECONDS = 0.04

Taken = dict[str, list[tuple[float, int]]]


@dataclass(frozen=True)
class Rate:
    """So many recipients in a period."""

    limit: int
    period: str
    delay: float = RETURN_DELAY_SECONDS  # seconds until a token comes back, beyond the period

    @property
    def seconds(self) -> float:
        return PERIODS[self.period]

    @property
    def promised(self) -> "Rate":
        """The same for turns to come."""
        delay = RETURN_DELAY_SECONDS + PROMISE_DELAY_SECONDS + self.seconds / GROUPS_PER_PERIOD
        return replace(self, delay=delay)

    def back_after(self, count: int) -> float:
        """A message to more than a period's worth uses up as many periods as it takes."""
        return self.seconds * max(1.0, count / self.limit) + self.delay


def rates_of(given: Any, name: str) -> list[Rate]:
    """Read ``{"second": 14, "day": 50000}``; ``ValueError`` names what is wrong in it."""
    if not isinstance(given, Mapping):
        raise ValueError(f"{name} must be a dict as {{'second': 14}}, not {given!r:.80}")
    for period, limit in given.items():
        if period not in PERIODS:
            raise ValueError(f"{name}: a period is one of {', '.join(PERIODS)}, not {period!r:.80}")
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            raise ValueError(f"{name}[{period!r}] must be at least 1, not {limit!r:.80}")
    return [Rate(limit, period) for period, limit in given.items()]


def read_taken(stored: Any) -> Taken:
    """What a row says was taken; nothing where it makes no sense."""
    try:
        return {
            str(period): [(float(at), int(count)) for at, count in groups]
            for period, groups in stored.items()
            if period in PERIODS
        }
    except (AttributeError, TypeError, ValueError):
        return {}


def wait_for(taken: Taken, rates: list[Rate], now: float, count: int) -> float:
    """Seconds until ``count`` tokens are there; 0 = now.

    More than a whole bucket holds are there when nothing is taken.
    """
    return max([_wait(taken.get(rate.period, []), rate, now, count) for rate in rates], default=0.0)


def take(taken: Taken, rates: list[Rate], now: float, count: int) -> Taken:
    """What is taken afterwards. Neighbours are kept together; they come back with the last of them,
    never too soon."""
    found = {}
    for rate in rates:
        merged: dict[int, tuple[float, int]] = {}
        for at, tokens in [*_out(taken.get(rate.period, []), rate, now), (now, count)]:
            slot = math.floor(at / rate.seconds * GROUPS_PER_PERIOD)
            _, before = merged.get(slot, (at, 0))
            merged[slot] = at, before + tokens
        found[rate.period] = list(merged.values())
    return found


def used(taken: Taken, rate: Rate, now: float) -> int:
    """How many tokens of a period are out."""
    return sum(count for _, count in _out(taken.get(rate.period, []), rate, now))


def next_turn(
    promises: Taken, rates: list[Rate], now: float, line_ends: float, count: int
) -> float:
    """When a new message has its turn: ``now``, or after all those in the line."""
    rates, end = promised(rates), max(now, line_ends)
    turn = end + wait_for(promises, rates, end, count)
    if turn <= now:
        return turn
    # Turns that follow each other evenly find workers that are awake and have time.
    rate = shortest(rates)
    return max(turn, line_ends + rate.back_after(1) / rate.limit)


def promised(rates: list[Rate]) -> list[Rate]:
    return [rate.promised for rate in rates]


def shortest(rates: list[Rate]) -> Rate:
    return min(rates, key=lambda rate: rate.seconds)


def written(rates: list[Rate]) -> dict[str, int]:
    """As the settings have them."""
    return {rate.period: rate.limit for rate in rates}


def _wait(groups: list[tuple[float, int]], rate: Rate, now: float, count: int) -> float:
    out = _out(groups, rate, now)
    missing = sum(taken for _, taken in out) + min(count, rate.limit) - rate.limit
    for at, taken in out:
        if missing <= 0:
            break
        missing -= taken
        wait = at + rate.back_after(taken) - now
        if missing <= 0:
            return wait
    return 0.0


def _out(groups: list[tuple[float, int]], rate: Rate, now: float) -> list[tuple[float, int]]:
    """What has not come back yet. Of the future we know nothing: the clock was set back."""
    return sorted(
        (at, taken)
        for at, taken in groups
        if now < at + rate.back_after(taken) and at <= now + RETURN_DELAY_SECONDS
    )
