"""The claimers of one child: one for its runner threads, and one for its event loop."""

from collections.abc import Iterable

from .assignment import Assignment
from .buffer import Item
from .claimer import Claimer
from .runner import Taker


class Claimers:
    """They take turns in one thread, and each fills a buffer of its own, so that none waits for
    the other's jobs to end."""

    def __init__(self) -> None:
        self.all: list[Claimer] = []
        self.assignment: Assignment | None = None
        self._known_version = 0

    def assign(self, assignment: Assignment) -> None:
        """From here on what that leaves to others is left to them."""
        self.assignment = assignment

    def add(self, claimer: Claimer) -> None:
        if self.all:
            claimer.allotment = self.all[0].allotment
        self.all.append(claimer)

    def turn(self, hold_claims: bool, locked_tables: frozenset[tuple[str, str]]) -> float:
        """One of each; seconds until there may be more to do."""
        wait = float("inf")
        if self.assignment is not None and self.assignment.version != self._known_version:
            self._take_over(self.assignment)
        for claimer in self.all:
            claimer.hold_claims = hold_claims
            claimer.scheduler.locked_tables = locked_tables
            wait = min(wait, claimer.turn())
        return wait

    def _take_over(self, assignment: Assignment) -> None:
        version, left = assignment.version, assignment.left_to_others()
        if left is None:
            return
        self._known_version = version
        for claimer in self.all:
            claimer.scheduler.leave(left)
            claimer.gives_away = left

    def sleep(self, seconds: float) -> None:
        first, *others = self.all
        first.is_idle = all(claimer.is_idle for claimer in self.all)
        if first.sleep(seconds):
            for other in others:
                other.scheduler.look_now()

    def give_back(self) -> None:
        """What has not started."""
        for claimer in self.all:
            claimer.session.prepare()
            claimer.give_back()
            claimer.gate.close()

    def withdraw(self) -> None:
        """What has not started: somebody else gives it back."""
        for claimer in self.all:
            claimer.buffer.withdraw()

    @property
    def are_busy(self) -> bool:
        """Whether jobs are under way."""
        return any(claimer.buffer.under_way for claimer in self.all)

    @property
    def are_waiting(self) -> bool:
        """Whether claimed jobs wait for a sacrificial child, or for a lock, to be given back."""
        return any(claimer.suspects or claimer.reconciler.put_off for claimer in self.all)

    @property
    def left(self) -> float:
        """How many more jobs they may claim."""
        return self.all[0].left

    def empty_for(self) -> float:
        """Seconds for which there has been nothing to claim; less than 0 = there may be."""
        return min(claimer.empty_for() for claimer in self.all)

    def under_way_of_others(self, claimer: Claimer) -> int:
        """How many jobs are not done that this one does not know of."""
        others = [other for other in self.all if other is not claimer]
        return sum(other.buffer.under_way + len(other.suspects) for other in others)

    def in_hand(self, takers: Iterable[Taker]) -> list[Item] | None:
        """What they have claimed and no taker has finished; None = one is just taking a job."""
        items: list[Item] = []
        for claimer in self.all:
            buffer = claimer.buffer
            waiting = buffer.withdraw()
            buffer.put(waiting)
            under_way, found = buffer.under_way, {id(item): item for item in waiting}
            for taker in takers:
                if taker.buffer is buffer:
                    found |= {id(item): item for item in taker.in_hand()}
            if len(found) < under_way:
                return None
            items += [*found.values(), *claimer.suspects, *claimer.of_locked_tables]
            items += buffer.unstarted
        return items
