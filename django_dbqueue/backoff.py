"""From the number of an attempt to the seconds until the next one."""

import random
from dataclasses import dataclass
from typing import Protocol


class Backoff(Protocol):
    """Anything with ``seconds(attempt)``; the first failed attempt is 1."""

    def seconds(self, attempt: int) -> float: ...


@dataclass(frozen=True)
class Fixed:
    """The same pause, in seconds, after every attempt."""

    pause: float

    def seconds(self, attempt: int) -> float:
        return self.pause


@dataclass(frozen=True)
class Exponential:
    """``first`` seconds, then ``factor`` times longer each time, never more than ``cap``.

    ``jitter`` is the share by which a pause is made longer or shorter at random, so that jobs
    which failed together do not come back together.
    """

    first: float = 10
    factor: float = 2
    cap: float = 3600
    jitter: float = 0.1

    def seconds(self, attempt: int) -> float:
        # 2.0 ** 1024 overflows; by then every cap is long reached.
        pause = min(self.cap, self.first * self.factor ** min(attempt - 1, 200))
        return pause * random.uniform(1 - self.jitter, 1 + self.jitter)


@dataclass(frozen=True)
class Listed:
    """One pause per attempt; the last one repeats."""

    pauses: tuple[float, ...]

    def seconds(self, attempt: int) -> float:
        return self.pauses[min(attempt, len(self.pauses)) - 1]
