"""Workers at one bucket, by a clock of our own: what they lease, start, give back and lose."""

import heapq
from collections.abc import Callable
from functools import partial
from itertools import count
from random import Random
from typing import Any

from django_dbqueue.lifecycle.rates import Bucket, Rate
from django_dbqueue.mail.limiter import MailLimiter
from django_dbqueue.models.rate_bucket import ClockReading
from django_dbqueue.worker import turns
from django_dbqueue.worker.turns import TokenLease, Turn

DATABASE_AHEAD = 1_000_000.0  # its clock, of ours


class AnswerLost(Exception):
    """The bucket was written, but nobody heard of it."""


class Limited(MailLimiter):
    def __init__(self, limits: list[Rate]) -> None:
        self.limits = limits

    def rates(self, queue: str) -> list[Rate]:
        return self.limits


class Simulation:
    """The clock, what is to happen, and the bucket's row. It also is ``time``, and the manager of
    buckets, for the leases."""

    def __init__(self, seed: int, limit: int, longest: float) -> None:
        self.random, self.limit, self.longest = Random(seed), limit, longest
        self.limiter = Limited([Rate(limit, "second")])
        self.now = 100.0
        self.stored: dict[str, Any] = {}
        self.arrivals: list[float] = []
        self.objects = self
        self.lost_share = 0.02  # of answers
        self._numbers = count()
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []

    def lease(self, name: str) -> TokenLease:
        return TokenLease("default", "email", "smtp", self.limiter, name)

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while self._agenda[0][0] < until:
            at, _, act = heapq.heappop(self._agenda)
            self.now = max(self.now, at)
            act()

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (self.now + seconds, next(self._numbers), act))

    def happens(self, share: float) -> bool:
        return self.random.random() < share

    def monotonic(self) -> float:
        return self.now

    def db_manager(self, using: str) -> "Simulation":
        return self

    def change(self, table: str, name: str, rates: Any, work: Any, burst: int | None = None) -> Any:
        before = self._moment()
        reading = ClockReading(before, DATABASE_AHEAD + self._moment(), self._moment())
        bucket = Bucket(self.stored, rates, reading.now, burst)
        result = work(bucket, reading)
        self.stored = bucket.stored()
        if self.happens(self.lost_share):
            raise AnswerLost
        return result

    def _moment(self) -> float:
        self.now += self.random.uniform(0, 0.002)
        return self.now


class SimulatedWorker:
    """A claimer with any number of runners; jobs are short now and then, and it may be killed."""

    def __init__(self, world: Simulation) -> None:
        self.world = world
        self.is_alive, self.without_until = True, 0.0
        self.lease = world.lease(f"w{next(world._numbers)}")
        world.later(world.random.uniform(0, 0.3), self.turn)

    def turn(self) -> None:
        world = self.world
        if not self.is_alive:
            return
        if world.happens(0.005):
            self.is_alive = False
            SimulatedWorker(world)
            return
        try:
            if world.now >= self.lease.ask_at:
                self.lease.renew(is_wanted=world.now >= self.without_until)
        except AnswerLost:
            world.later(0.1, self.turn)
            return
        self.claim()
        stall = world.random.uniform(0.1, 2.5) if world.happens(0.02) else 0.005
        world.later(max(0.0, self.lease.ask_at - world.now) + stall, self.turn)

    def claim(self) -> None:
        world = self.world
        if not self.lease.spare or world.now < self.without_until:
            return
        jobs = self.lease.jobs_max
        if world.happens(0.1):  # others have the rest
            jobs = world.random.randrange(jobs)
            self.without_until = world.now + world.random.uniform(0, 0.5)
        for _ in range(jobs):
            cost = 3 if world.happens(0.05) else 1
            if (turn := self.lease.turn_of(cost)) is None:
                break
            turn.is_void = world.happens(0.02)  # it was withdrawn
            busy = world.random.uniform(0, 1.0 if world.happens(0.05) else 0.05)
            world.later(max(0.0, turn.at - world.now) + busy, partial(self.start, turn))

    def start(self, turn: Turn) -> None:
        world = self.world
        if not self.is_alive or not turn.begin():
            turn.is_void = True
            return
        if world.happens(0.05):
            turn.count -= 1  # a recipient has it already
        seconds = world.random.uniform(0.002, world.longest)
        world.later(world.random.uniform(0, seconds), lambda: self.arrive(turn))
        world.later(seconds, turn.end)

    def arrive(self, turn: Turn) -> None:
        if self.is_alive:
            self.world.arrivals += [self.world.now] * turn.count


def simulation(monkeypatch: Any, seed: int, limit: int, longest: float) -> Simulation:
    world = Simulation(seed, limit, longest)
    monkeypatch.setattr(turns, "process_clock", world)
    monkeypatch.setattr(turns, "RateBucket", world)
    return world


def simulate(monkeypatch: Any, seed: int, limit: int, longest: float) -> list[float]:
    """When a server counted what four workers sent it in 30 seconds; a delivery takes up to
    ``longest`` seconds, and is counted at any moment of them."""
    world = simulation(monkeypatch, seed, limit, longest)
    for _ in range(4):
        SimulatedWorker(world)
    world.run(30)
    return world.arrivals
