"""When a worker takes one more process, or one less: figures in, a decision out."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..conf.bounds import ProcessRange
from ..dialects.types import ConnectionRoom
from ..lifecycle.claim_end import duration
from .channel import Waiting
from .scaling_options import ScalingOptions

IDLE_COOLDOWNS = 3  # for which fewer processes must have done, before there is one less
LEFT_TO_OTHERS = 5  # connections that are never taken: people and other programs need some
EASY_SHARE = 0.5  # of the target, within which fewer processes would have to stay


@dataclass(frozen=True)
class Figures:
    """What a decision rests on.

    ``version``: another one whenever somebody has measured again. ``seconds_to_clear``: for all
    that is ready, with the processes of now; None = nobody knows how long a job takes. ``running``:
    jobs; ``load``: how many processes they keep busy. ``rooms``: by database.
    ``queues``: that have jobs, and are to have a process each.
    """

    version: float
    waiting: Sequence[Waiting]
    seconds_to_clear: float | None
    running: int
    load: float
    rooms: Sequence[tuple[str, ConnectionRoom]] = ()
    queues: int = 0

    @property
    def oldest(self) -> Waiting | None:
        return max(self.waiting, key=lambda one: one.seconds, default=None)

    @property
    def jobs(self) -> int:
        return sum(one.jobs for one in self.waiting)


@dataclass(frozen=True)
class Decision:
    """From how many processes to how many, and why."""

    before: int
    after: int
    reason: str

    def __str__(self) -> str:
        return f"{self.before} -> {self.after} processes: {self.reason}"


class Pool:
    """The processes of a worker, or those of one of its databases."""

    def __init__(self, bounds: ProcessRange, options: ScalingOptions, connections: int) -> None:
        """``connections``: how many a process may open on each database."""
        self.bounds = bounds
        self.options = options
        self.connections = connections
        # Why there are no more, although they are needed.
        self.held = ""
        self._decided_at = float("-inf")
        self._decided_on = float("-inf")
        # Since when fewer would have done, and the most jobs that ran at once meanwhile.
        self._idle_since: float | None = None
        self._ran_max = 0

    def rest(self) -> None:
        """Nothing is to be concluded from what is seen now, nor from before."""
        self._idle_since = None

    def decide(self, now: float, count: int, there: int, figures: Figures) -> Decision | None:
        """``count``: the processes that are to be; ``there``: with those that are leaving."""
        self._note(now, count, figures)
        if now < self._decided_at + self.options.balance_cooldown:
            return None
        if figures.version == self._decided_on:
            return None
        decision = self._grown(count, there, figures) or self._shrunk(now, count)
        if decision is not None:
            self._decided_at, self._decided_on = now, figures.version
            self._idle_since = None
        return decision

    def _note(self, now: float, count: int, figures: Figures) -> None:
        fewer = count - 1
        enough = fewer >= max(self.bounds.least, figures.queues) and figures.load <= fewer
        limit = EASY_SHARE * self.options.target_wait
        if enough and figures.oldest is not None:
            clear = figures.seconds_to_clear or 0.0
            enough = figures.oldest.seconds <= limit and clear * count / fewer <= limit
        if not enough:
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since, self._ran_max = now, 0
        self._ran_max = max(self._ran_max, figures.running)

    def _grown(self, count: int, there: int, figures: Figures) -> Decision | None:
        reason = self._reason_to_grow(count, figures)
        step = min(self.options.balance_max_shift, self.bounds.most - max(count, there))
        self.held = ""
        if not reason or step <= 0:
            return None
        for alias, room in figures.rooms:
            step = min(step, (room.free - LEFT_TO_OTHERS) // self.connections)
            if step <= 0:
                self.held = (
                    f"stays at {processes(count)}: {reason}, but {room.free} of {room.limit} "
                    f"connections to {alias} are free ({room.setting}), one more process may need "
                    f"{self.connections}, and {LEFT_TO_OTHERS} are left to others"
                )
                return None
        return Decision(count, count + step, reason)

    def _reason_to_grow(self, count: int, figures: Figures) -> str:
        oldest, clear = figures.oldest, figures.seconds_to_clear
        target = self.options.target_wait
        if oldest is None:
            return ""
        if figures.queues > count:
            return f"{figures.queues} queues have jobs, and are to have a process each"
        # What is done within a moment needs no help, however long it has waited.
        is_soon_done = clear is not None and clear < min(1.0, target)
        if oldest.seconds > target and not is_soon_done:
            return f"the oldest job of {oldest.name} has waited {duration(oldest.seconds)}"
        if clear is not None and clear > target:
            need = "needs" if count == 1 else "need"
            them = f"{processes(count)} {need} {duration(clear)}"
            jobs = "1 job is" if figures.jobs == 1 else f"{figures.jobs:,} jobs are"
            return f"{jobs} ready, for which {them}"
        return ""

    def _shrunk(self, now: float, count: int) -> Decision | None:
        seconds = IDLE_COOLDOWNS * self.options.balance_cooldown
        if self._idle_since is None or now - self._idle_since < seconds:
            return None
        ran = "no job ran"
        if self._ran_max:
            ran = f"at most {self._ran_max} {'job' if self._ran_max == 1 else 'jobs'} ran at once"
        return Decision(count, count - 1, f"for {duration(now - self._idle_since)} {ran}")


def processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"
