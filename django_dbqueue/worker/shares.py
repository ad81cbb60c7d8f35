"""Which of a worker's processes serve which queues: weights in, shares out."""

from collections import Counter
from collections.abc import Mapping

from .assignment import QueueName

Shares = dict[int, frozenset[QueueName]]  # by child


def targets(count: int, weights: Mapping[QueueName, float]) -> Counter[QueueName]:
    """How many of so many children each queue is to have: one, and then each time one more where
    there is most for each of them."""
    found = Counter(dict.fromkeys(weights, 1))
    for _ in range(count - len(weights) if weights else 0):
        found[max(weights, key=lambda name: (weights[name] / found[name], -found[name]))] += 1
    return found


class ShareOut:
    """One round: who has which queues now, and who shall have them.

    Every queue has at least one child, and every child at least one queue. With fewer children than
    queues some have several. While others have jobs, those without share one, unless they have
    one of their own already.
    """

    def __init__(
        self, now: Mapping[int, frozenset[QueueName]], weights: Mapping[QueueName, float]
    ) -> None:
        shares: Shares = {child: names & weights.keys() for child, names in now.items()}
        own = {name for names in shares.values() if len(names) == 1 for name in names}
        idle = [name for name in weights if not weights[name] and name not in own]
        # One name speaks for all of these.
        self.idle = frozenset(idle) if any(weights.values()) else frozenset()
        others = self.idle - {*idle[:1]}
        self.weights = {name: weights[name] for name in weights if name not in others}
        self.shares = {
            child: names - self.idle | {*idle[:1]} if names & self.idle else names
            for child, names in shares.items()
        }
        self.targets = targets(len(now), self.weights)

    def run(self, shifts: int) -> Shares:
        """With at most so many children moved between queues that have some."""
        self._share_out(shifts)
        return {
            child: names | self.idle if names & self.idle else names
            for child, names in self.shares.items()
        }

    def _share_out(self, shifts: int) -> None:
        if not (self.weights and self.shares):
            return
        for name in sorted(self.weights, key=lambda one: -self.weights[one]):
            if not self._counts()[name]:
                self._give_to_somebody(name)
        for child, names in self.shares.items():
            if not names:
                self.shares[child] = frozenset({self._neediest()})
        while shifts > 0 and self._shift():
            shifts -= 1

    def _counts(self) -> Counter[QueueName]:
        return Counter(name for names in self.shares.values() for name in names)

    def _neediest(self) -> QueueName:
        counts = self._counts()
        return max(
            self.weights,
            key=lambda name: (
                self.targets[name] - counts[name],
                self.weights[name] / (counts[name] or 1),
            ),
        )

    def _give_to_somebody(self, name: QueueName) -> None:
        """One without a queue, else one of several with the same, else that with least to do."""
        child = next((one for one, names in self.shares.items() if not names), None)
        child = self._spare() if child is None else child
        if child is not None:
            self.shares[child] = frozenset({name})
            return
        child = min(self.shares, key=lambda one: sum(self.weights[n] for n in self.shares[one]))
        self.shares[child] |= {name}

    def _spare(self) -> int | None:
        """One of those children that have the same queue, where there are most too many."""
        counts = self._counts()
        spare = [
            (counts[name] - self.targets[name], child)
            for child, names in self.shares.items()
            for name in names
            if len(names) == 1 and counts[name] > 1
        ]
        return max(spare)[1] if spare else None

    def _shift(self) -> bool:
        """One child to where it is needed more; whether there was such a one."""
        child = self._spare()
        if child is None:
            return False
        crowded = max(self.shares, key=lambda one: len(self.shares[one]))
        if len(self.shares[crowded]) > 1:
            name = max(self.shares[crowded], key=lambda one: self.weights[one])
            self.shares[crowded] -= {name}
            self.shares[child] = frozenset({name})
            return True
        [has], needs, counts = self.shares[child], self._neediest(), self._counts()
        if counts[has] <= self.targets[has] or counts[needs] >= self.targets[needs]:
            return False
        self.shares[child] = frozenset({needs})
        return True
