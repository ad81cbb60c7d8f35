"""How many children a worker has, and what it says about that: a part of the supervisor.

It waits for no database: where one is silent, its figures grow old, and nothing is decided."""

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from ..guard import NOTHING_DUE
from ..lifecycle.table import is_coroutine
from .agents import Agents
from .balancer import Balancer
from .channel import Backlog, Waiting
from .children import Children, Group
from .job_log import log_of_worker
from .options import Options
from .pool import Figures, Pool
from .run_times import MeanRunTimes

LOOK_SECONDS = 0.5  # between two looks, of which there are three in a cooldown at least
SHOWN_MAX = 10  # decisions in the worker's row
OWN_CONNECTIONS = 2  # of a child, for its claims and for its outcomes
# Of an event loop: one hands jobs to it, one is for what they call, one for outcomes of their own.
LOOP_CONNECTIONS = 3


def connections_of_child(options: Options) -> int:
    """How many a child may open on a database: one for each thread, and its own."""
    return OWN_CONNECTIONS + options.threads + (LOOP_CONNECTIONS if options.coroutines else 0)


class Decisions:
    """The last ones, in plain English."""

    def __init__(self) -> None:
        self._last: deque[tuple[float, str]] = deque(maxlen=SHOWN_MAX)

    def add(self, text: str) -> None:
        self._last.appendleft((time.monotonic(), text))

    def shown(self) -> list[dict[str, Any]]:
        """The latest first, with the seconds that have passed since."""
        now = time.monotonic()
        return [{"seconds": round(now - at, 1), "text": text} for at, text in self._last]


class Scaling:
    """Looks at what waits and runs, and has children come and leave."""

    def __init__(self, options: Options, children: Children, agents: Agents, worker: str) -> None:
        """``worker``: its name in the log."""
        self.options = options
        self.children = children
        self.agents = agents
        self.worker = worker
        self.means = MeanRunTimes()
        given = options.process_range, options.scaling, connections_of_child(options)
        self.pools = {group: Pool(*given) for group in children.groups}
        self.decisions = {group: Decisions() for group in children.groups}
        # By table, how many jobs a child runs at once.
        awaited = options.coroutines or options.threads
        self._places = {
            (one.using, one.label): awaited if is_coroutine(one.model) else options.threads
            for one in options.served
        }
        # Of a child, for jobs of all tables: threads, and coroutines where some are awaited.
        kinds = {bool(options.coroutines) and is_coroutine(one.model) for one in options.served}
        coroutines = options.coroutines or 0
        self._slots = options.threads * (False in kinds) + coroutines * (True in kinds)
        self.balancers: dict[Group, Balancer] = {}
        if options.balances:
            balanced = {group: Balancer(options, group, self.means) for group in children.groups}
            self.balancers = balanced
        self._interval = min(LOOK_SECONDS, options.scaling.balance_cooldown / 3)
        self._look_at = 0.0
        # Nothing is to be changed any more.
        self.is_over = not children.is_changing

    def turn(self) -> float:
        """Decide, where it is time to; seconds until the next look."""
        now = time.monotonic()
        if self.is_over:
            return NOTHING_DUE
        if now < self._look_at:
            return self._look_at - now
        self._look_at = now + self._interval
        living = self.children.living.values()
        self.means.look((one.pid, one.assignment.times) for one in living if one.assignment)
        for group in self.children.groups:
            figures = self._figures(group, now)
            self._decide(group, now, figures)
            if balancer := self.balancers.get(group):
                self._balance(group, balancer, now, is_known=figures is not None)
        return self._interval

    def _balance(self, group: Group, balancer: Balancer, now: float, *, is_known: bool) -> None:
        """Children that have come or left change the shares even while nothing is known."""
        children, may_shift = self.children.staying(group), is_known and not self.children.paused
        if changed := balancer.turn(children, now, may_shift=may_shift):
            self.say(group, changed)

    def _decide(self, group: Group, now: float, figures: Figures | None) -> None:
        pool, count = self.pools[group], self.children.wanted[group]
        if figures is None or self.children.paused or not self.children.may_change(group):
            pool.rest()
            return
        before = pool.held
        most = pool.bounds.most
        there = max(self.children.ordinary(group), most - self.children.more_max)
        decision = pool.decide(now, count, there, figures)
        if pool.held and not before:
            self.say(group, pool.held)
        if decision is None:
            return
        for _ in range(decision.before, decision.after):
            self.children.grow(group)
        for _ in range(decision.after, decision.before):
            self.children.shrink(group)
        self.say(group, str(decision))

    def say(self, group: Group, text: str) -> None:
        """In the log, and in the worker's row."""
        self.decisions[group].add(text)
        place = "" if group is None else f" on {group}"
        event, message = "worker.scaled", "worker %s%s: %s"
        log_of_worker(event, message, self.worker, self.options.name, place, text)

    def _figures(self, group: Group, now: float) -> Figures | None:
        """None = of some database nothing is known for now."""
        backlogs: list[Backlog] = []
        for handle in self.agents:
            if group not in {None, handle.alias}:
                continue
            if handle.backlog is None or handle.backlog.good_until < now:
                return None
            backlogs.append(handle.backlog)
        waiting = [one for backlog in backlogs for one in backlog.waiting]
        if balancer := self.balancers.get(group):
            balancer.note(waiting, now)
        staying = self.children.staying(group)
        busy = [child.shared.busy() for child in staying]
        threads, coroutines = (sum(part) for part in zip(*busy, strict=True)) if busy else (0, 0)
        load = max(threads / self.options.threads, coroutines / max(1, self.options.coroutines))
        rooms = [(h.alias, h.backlog.room) for h in self.agents if h.backlog and h.backlog.room]
        return Figures(
            version=max(backlog.good_until for backlog in backlogs),
            waiting=waiting,
            seconds_to_clear=self._seconds_to_clear(waiting, self.children.wanted[group], load),
            running=threads + coroutines,
            load=load,
            rooms=[(alias, room) for alias, room in rooms if group in {None, alias}],
            queues=balancer.busy_queues if balancer else 0,
        )

    def _seconds_to_clear(
        self, waiting: Sequence[Waiting], count: int, load: float
    ) -> float | None:
        """With so many processes; what idle ones are about to take does not wait."""
        seconds = 0.0
        for one in waiting:
            mean = self.means.mean(*one.name)
            if mean is None:
                mean = self._running_for()
            if mean is None:
                return None
            places = self._places[one.name.using, one.name.table]
            beyond = max(0.0, one.jobs - max(0.0, count - load) * places)
            seconds += beyond * mean / (max(1, count) * places)
        return seconds

    def _running_for(self) -> float | None:
        """For how long what runs has run on average, where no job has ended yet."""
        now = time.monotonic()
        running = [job for child in self.children.living.values() for job in child.shared.running()]
        ages = [max(0.0, now - job.started_at) for job in running]
        return sum(ages) / len(ages) if ages else None

    def columns(self, alias: str) -> dict[str, Any]:
        """What the worker's row on a database shows."""
        group, bounds = self.children.group_of(alias), self.options.process_range
        processes = len(self.children.staying(group))
        return {
            "processes": processes,
            "slots": processes * self._slots,
            "least": bounds.least,
            "most": bounds.most,
            "held": self.pools[group].held,
            "decisions": self.decisions[group].shown(),
            "queues": self.balancers[group].shown() if group in self.balancers else {},
        }
