"""Rates: tokens are leased before jobs are claimed, and each job starts when its token is there."""

import uuid
from collections import deque
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ..lifecycle import holder, process_clock
from ..lifecycle.limiter import Limiter
from ..lifecycle.table import Table
from .buffer import Item
from .turns import ASK_SECONDS, TokenLease

if TYPE_CHECKING:  # it makes the gate
    from .claimer import Claimer
    from .queue_poller import TablePoller

Place = tuple[str, str, str]  # database, table, bucket


class Lane(NamedTuple):
    """A queue that has a rate, and ready jobs."""

    poller: "TablePoller"
    queue: str
    limiter: Limiter

    @property
    def place(self) -> Place:
        """Of its bucket."""
        served = self.poller.served
        return served.using, served.job_table, self.limiter.bucket_of(self.queue)

    @property
    def order(self) -> int:
        return self.limiter.order(self.queue)


class RateGate:
    """What a claimer asks before it claims from queues that have a rate."""

    def __init__(self, claimer: "Claimer") -> None:
        self.claimer = claimer
        self.key = uuid.uuid4().hex[:12]
        self.leases: dict[Place, TokenLease] = {}

    @property
    def is_used(self) -> bool:
        return bool(self.leases) or any(poller.limited for poller in self.claimer.scheduler.pollers)

    @property
    def may_have_work(self) -> bool:
        """Whether something could go out now, as far as is known."""
        now = process_clock.monotonic()
        for lane in self._ready():
            lease = self.leases.get(lane.place)
            if lease is None or lease.spare or lease.turns or now >= lease.blocked_until:
                return True
        return False

    @property
    def waits(self) -> float | None:
        """Seconds until something may start that waits for its tokens; None where nothing does."""
        ready = {lane.place for lane in self._ready()}
        moments = []
        for place, lease in self.leases.items():
            moments += [one.at for one in lease.turns if one.begun is None and not one.is_void]
            moments += [max(lease.ask_at, lease.tokens_at)] if place in ready else []
        return max(0.0, min(moments) - process_clock.monotonic()) if moments else None

    def turn(self) -> float:
        """Claim what has its turn soon; seconds until there is more to do."""
        claimer = self.claimer
        claimer.buffer.let_start()
        may_claim = not (claimer.hold_claims or claimer.shared.paused) and claimer.left > 0
        ready: dict[Place, list[Lane]] = {}
        for lane in self._ready():
            ready.setdefault(lane.place, []).append(lane)
        wait = 60.0
        for place in {**self.leases, **ready}:
            lanes = sorted(ready.get(place, []), key=attrgetter("order"))
            wait = min(wait, self._serve(place, lanes, may_claim))
        return min(wait, claimer.buffer.let_start())

    def close(self) -> None:
        """Give back what is not used."""
        for lease in self.leases.values():
            lease.renew(is_wanted=False)
        self.leases = {}

    def without_strays(
        self, table: Table, owner: str, jobs: list[Any], limiter: Limiter
    ) -> list[Any]:
        """Those that belong into the lane of a key go there, one statement for each lane."""
        strays = limiter.strays(jobs, table.connection.alias)
        if not strays:
            return jobs
        for lane, moved in strays.items():
            holder.move(table, owner, [job.claim_key for job in moved], lane)
            self.claimer.left += len(moved)
        self.claimer.scheduler.look_now()
        gone = {id(job) for moved in strays.values() for job in moved}
        return [job for job in jobs if id(job) not in gone]

    def with_turns(self, items: list[Item], lease: TokenLease) -> list[Item]:
        """What there are no tokens for is given back, and with it what is behind it."""
        for number, item in enumerate(items):
            cost = sum(lease.limiter.cost(job) for job in item.jobs if not job.has_expired)
            if not cost:
                continue
            item.turn = lease.turn_of(cost)
            if item.turn is None:
                self.claimer.release(items[number:])
                return items[:number]
            for job in item.jobs:
                job.rate_turn = item.turn
        return items

    def _ready(self) -> list[Lane]:
        scheduler = self.claimer.scheduler
        return [
            Lane(poller, queue, poller.limiter)
            for poller in scheduler.pollers
            if poller.limiter and poller.served.place not in scheduler.locked_tables
            for queue in poller.limited
            if scheduler.may_start(poller, queue)
        ]

    def _serve(self, place: Place, lanes: list[Lane], may_claim: bool) -> float:
        if place not in self.leases:
            self.leases[place] = TokenLease(*place, lanes[0].limiter, self.key)
        lease, now = self.leases[place], process_clock.monotonic()
        if now >= lease.ask_at:
            lease.queue = lanes[0].queue if lanes else lease.queue
            self._ask(lease, bool(lanes) and may_claim, now)
        if not (lanes or lease.turns or lease.spare):
            del self.leases[place]
            return 60.0
        if may_claim and lease.spare and lanes:
            self.claimer.claim_from(lanes[0].poller, lanes[0].queue, lease)
        return max(0.0, lease.ask_at - process_clock.monotonic())

    @staticmethod
    def _ask(lease: TokenLease, is_wanted: bool, now: float) -> None:
        rest = lease.limiter.rest(lease.queue, lease.using)
        if lease.limiter.rates(lease.queue):
            lease.renew(is_wanted and not rest)
        else:
            lease.turns, lease.spare = [], deque()
        if rest:
            lease.ask_at = lease.blocked_until = now + min(rest, ASK_SECONDS)
