"""Gives queues children of their own, so that long jobs of one keep no other one waiting."""

from collections import Counter
from collections.abc import Iterable, Sequence

from ..lifecycle.claim_end import duration
from .assignment import QueueName
from .channel import Waiting
from .child import Child
from .options import Options
from .run_times import MeanRunTimes
from .shares import ShareOut, Shares

KEEP_SECONDS = 60.0  # for which a queue that nobody has named keeps its child without a job
QUEUES_SHOWN_MAX = 20  # in the worker's row
UNKNOWN_SECONDS = 1.0  # that a job takes, as long as none has ended


class Balancer:
    """Of the children of one worker, or of one of its databases."""

    def __init__(self, options: Options, using: str | None, means: MeanRunTimes) -> None:
        self.options = options.scaling
        self.means = means
        here = [one for one in options.served if using in {None, one.using}]
        self._named = [QueueName(*one.place, one.queue) for one in here if one.queue]
        # When a job was last seen to wait, and how much there was at the last look.
        self._seen_at: dict[QueueName, float] = {}
        self._weights: dict[QueueName, float] = dict.fromkeys(self._named, 0.0)
        self._jobs: Counter[QueueName] = Counter()
        self._shifted_at = float("-inf")
        # How many children each queue has.
        self.counts: Counter[QueueName] = Counter()

    def note(self, waiting: Iterable[Waiting], now: float) -> None:
        """What somebody has measured."""
        self._jobs = Counter({one.name: one.jobs for one in waiting})
        self._seen_at |= dict.fromkeys(self._jobs, now)
        self._seen_at = {k: at for k, at in self._seen_at.items() if now - at < KEEP_SECONDS}
        self._weights = {name: self._weight(name) for name in [*self._named, *self._seen_at]}

    def _weight(self, name: QueueName) -> float:
        if self.options.balance == "simple":
            return 1.0
        return float(self._jobs[name]) if self.options.balance_by == "size" else self._time(name)

    def _time(self, name: QueueName) -> float:
        """Seconds that one thread needs for what waits."""
        mean = self.means.mean(*name)
        return self._jobs[name] * (UNKNOWN_SECONDS if mean is None else mean)

    @property
    def busy_queues(self) -> int:
        """How many have jobs that wait."""
        return len(self._jobs)

    def turn(self, children: Sequence[Child], now: float, *, may_shift: bool) -> str:
        """Tell the children which queues they leave to others; what has changed, or ''."""
        is_time = now >= self._shifted_at + self.options.balance_cooldown
        is_asked = self.options.balance == "simple" or any(self._weights.values())
        shifts = self.options.balance_max_shift if may_shift and is_time and is_asked else 0
        before: Shares = {child.pid: child.queues for child in children}
        shares = ShareOut(before, self._weights).run(shifts)
        for child in children:
            child.queues = shares[child.pid]
            others = frozenset(self._weights.keys() - child.queues)
            if child.left_to_others != others and child.assignment is not None:
                child.left_to_others = others
                child.assignment.leave(sorted(others))
        counts, known = Counter(n for names in shares.values() for n in names), self.counts
        self.counts = counts
        # One that merely fell out of use has not lost a process.
        if all(counts[name] == known[name] for name in counts):
            return ""
        self._shifted_at = now
        if len(children) < 2:
            return ""
        return f"processes by queue: {', '.join(self._changes(known, counts))}"

    def _changes(self, before: Counter[QueueName], after: Counter[QueueName]) -> Iterable[str]:
        for name in sorted(before | after):
            if before[name] != after[name] and name in self._weights:
                jobs = self._jobs[name]
                has = f"jobs that wait: {jobs:,}"
                if jobs and self.options.balance_by == "time":
                    has += f", {duration(self._time(name))} of work"
                yield f"{name} {before[name]} -> {after[name]} ({has})"

    def shown(self) -> dict[str, int]:
        """How many processes each queue has, for the worker's row."""
        return {str(name): n for name, n in self.counts.most_common(QUEUES_SHOWN_MAX)}
