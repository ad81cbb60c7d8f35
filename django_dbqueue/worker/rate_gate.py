"""Rates: tokens are leased before jobs are claimed, and each job starts when its token is there."""

import time
import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from ..lifecycle.limiter import Limiter
from ..lifecycle.rates import Bucket
from ..models import RateBucket
from ..models.rate_bucket import ClockReading

HORIZON_SECONDS = 0.25  # tokens that come back within these are leased ahead
RENEW_SECONDS = 0.15  # between two writes to a bucket's row, while it is in use
SLACK_SECONDS = 0.75  # so much longer a leased token may wait for a runner
ASK_SECONDS = 1.0  # between two looks at a bucket that is empty
FIRST_WANT = 4
WANT_MAX = 1000  # tokens of one lease


@dataclass(slots=True, eq=False)
class Turn:
    """The tokens of one job, or batch: by the monotonic clock, when it may start, and did."""

    lease: "TokenLease"
    at: float
    count: int
    begun: float | None = None
    ended: float | None = None
    is_void: bool = False

    def begin(self) -> bool:
        """Whether the tokens are still ours; from here on they are used."""
        now = time.monotonic()
        if now > self.lease.until:
            return False
        self.begun = now
        return True

    def end(self) -> None:
        self.ended = time.monotonic()

    def used_at(self, now: float, late: float) -> float | None:
        """When they count as used; None = that is not known yet."""
        if self.begun is None:
            return None
        if self.ended is not None:
            return min(self.ended, self.begun + late)
        return self.begun + late if now > self.begun + late else None


@dataclass(eq=False)
class TokenLease:
    """What a claimer holds of one bucket."""

    using: str
    job_table: str
    name: str
    limiter: Limiter
    key: str
    places: int
    turns: list[Turn] = field(default_factory=list)
    spare: deque[float] = field(default_factory=deque)  # when each may be used
    until: float = 0.0
    ask_at: float = 0.0
    blocked_until: float = 0.0
    want: int = FIRST_WANT
    mean_cost: float = 1.0
    saves: int = 0  # tokens that the next job costs

    @property
    def jobs_max(self) -> int:
        """How many jobs to claim: what cannot start soon is left to others."""
        return max(1, int(len(self.spare) / self.mean_cost))

    def turn_of(self, cost: int) -> Turn | None:
        """A turn that takes so many tokens; None where there are not enough. A job that costs more
        than a whole bucket holds takes all of it."""
        self.mean_cost = 0.9 * self.mean_cost + 0.1 * cost
        held = min([cost, *[rate.limit for rate in self.limiter.rates(self.name_of_queue)]])
        if len(self.spare) < held:
            self.saves, self.ask_at = cost, 0.0
            self.spare.clear()
            return None
        at = max(self.spare.popleft() for _ in range(held))
        turn = Turn(self, at, cost)
        self.turns.append(turn)
        return turn

    # A queue of the bucket: whichever, they have the same rate.
    name_of_queue: str = ""

    def renew(self, queue: str, is_wanted: bool) -> None:
        """Write what was used, and lease what the next moments allow, in one write."""
        self.name_of_queue = queue
        rates = self.limiter.rates(queue)
        late = min((self.limiter.late(rate) for rate in rates), default=0.0)
        turns = [turn for turn in self.turns if not turn.is_void]
        moment = time.monotonic()
        used_at = [turn.used_at(moment, late) for turn in turns]
        still = [turn for turn, at in zip(turns, used_at, strict=True) if at is None]
        spare = self.spare if is_wanted else deque[float]()
        want = self._wanted(still, moment) if is_wanted else 0

        def work(bucket: Bucket, clock: ClockReading) -> tuple[list[float], float, float]:
            used = [
                (clock.latest(at), turn.count)
                for turn, at in zip(turns, used_at, strict=True)
                if at is not None
            ]
            until = clock.now + HORIZON_SECONDS + SLACK_SECONDS
            bucket.renew(self.key, sum(turn.count for turn in still) + len(spare), until, used)
            times, wait = self._leased(bucket, until, want - len(spare)) if want else ([], 1.0)
            return [clock.surely(at) for at in times], clock.earliest(until), wait

        buckets = RateBucket.objects.db_manager(self.using)
        burst = self.limiter.burst(queue)
        done = buckets.change(self.job_table, self.name, rates, work, burst)
        if done is None:
            self.ask_at = time.monotonic() + RENEW_SECONDS
            return
        times, self.until, wait = done
        self.turns, self.spare = still, spare
        self.spare.extend(times)
        self._ask_later(wait, is_wanted)

    def _wanted(self, still: Sequence[Turn], now: float) -> int:
        """Twice as many as last time while they are used at once; fewer while they wait."""
        late = sum(turn.begun is None and turn.at <= now for turn in still)
        if late > 2 * self.places:
            self.want = max(1, self.want // 2)
            return 0
        if not self.spare:
            self.want = min(WANT_MAX, self.want * 2)
        return self.want

    def _leased(self, bucket: Bucket, until: float, want: int) -> tuple[list[float], float]:
        """Our share of what is there: others who lease want theirs."""
        need = max(1, self.saves, bucket.saving)
        offer = bucket.offer(WANT_MAX, HORIZON_SECONDS, need)
        if not offer.times:
            if self.saves:
                bucket.save_up(self.saves)
            return [], offer.wait
        if want <= 0 and need == 1:
            return [], 0.0
        others = sum(1 for name in bucket.leases if name != self.key)
        share = ceil(len(offer.times) / (1 + others))
        times = offer.times[: max(need, min(want, share))]
        bucket.take(self.key, until, times)
        bucket.saving = 0
        return times, 0.0

    def _ask_later(self, wait: float, is_wanted: bool) -> None:
        now = time.monotonic()
        self.ask_at = now + (min(wait, ASK_SECONDS) or RENEW_SECONDS)
        if self.spare or not is_wanted:
            self.saves = 0
        elif not self.turns:
            self.blocked_until = self.ask_at
        if self.turns:
            self.ask_at = min(self.ask_at, now + RENEW_SECONDS)


class RateGate:
    """What a claimer asks before it claims from queues that have a rate."""

    def __init__(self, claimer: Any) -> None:
        self.claimer = claimer
        self.key = uuid.uuid4().hex[:12]
        self.leases: dict[tuple[str, str, str], TokenLease] = {}

    @property
    def is_used(self) -> bool:
        return bool(self.leases) or any(poller.limited for poller in self.claimer.scheduler.pollers)

    @property
    def may_have_work(self) -> bool:
        """Whether something could go out now, as far as is known."""
        now = time.monotonic()
        for poller, queue in self._ready():
            lease = self.leases.get(self._place(poller, queue))
            if lease is None or lease.spare or lease.turns or now >= lease.blocked_until:
                return True
        return False

    def turn(self, may_claim: bool) -> float:
        """Claim what has its turn soon; seconds until there is more to do."""
        ready: dict[tuple[str, str, str], list[tuple[Any, str]]] = {}
        for poller, queue in self._ready():
            ready.setdefault(self._place(poller, queue), []).append((poller, queue))
        wait = 60.0
        for place in {**self.leases, **ready}:
            queues = sorted(ready.get(place, []), key=lambda one: one[0].limiter.order(one[1]))
            wait = min(wait, self._serve(place, queues, may_claim))
        return wait

    def close(self) -> None:
        """Give back what is not used."""
        for lease in self.leases.values():
            lease.renew(lease.name_of_queue, is_wanted=False)
        self.leases = {}

    def _ready(self) -> list[tuple[Any, str]]:
        scheduler = self.claimer.scheduler
        return [
            (poller, queue)
            for poller in scheduler.pollers
            if poller.limited and poller.served.place not in scheduler.locked_tables
            for queue in poller.limited
        ]

    @staticmethod
    def _place(poller: Any, queue: str) -> tuple[str, str, str]:
        served = poller.served
        return served.using, served.job_table, poller.limiter.bucket_of(queue)

    def _serve(
        self, place: tuple[str, str, str], queues: list[tuple[Any, str]], may_claim: bool
    ) -> float:
        lease, now = self.leases.get(place), time.monotonic()
        if lease is None:
            poller, queue = queues[0]
            places = self.claimer.buffer.places
            lease = TokenLease(*place, poller.limiter, self.key, places, name_of_queue=queue)
            self.leases[place] = lease
        if now >= lease.ask_at:
            self._ask(lease, queues, may_claim, now)
        if not (queues or lease.turns or lease.spare):
            del self.leases[place]
            return 60.0
        if may_claim and lease.spare and queues:
            self.claimer.claim_from(*queues[0], lease)
        return max(0.0, lease.ask_at - time.monotonic())

    def _ask(
        self, lease: TokenLease, queues: list[tuple[Any, str]], may_claim: bool, now: float
    ) -> None:
        queue = queues[0][1] if queues else lease.name_of_queue
        rest = lease.limiter.rest(queue, lease.using)
        if lease.limiter.rates(queue):
            lease.renew(queue, bool(queues) and may_claim and not rest)
        elif not rest:
            lease.turns, lease.spare = [], deque()
        if rest:
            lease.ask_at = lease.blocked_until = now + min(rest, ASK_SECONDS)
