"""The tokens that a claimer holds of one bucket, and the turns that it gives to jobs."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

from ..lifecycle import process_clock
from ..lifecycle.limiter import Limiter
from ..lifecycle.rates import Bucket
from ..models import RateBucket
from ..models.rate_bucket import ClockReading

HORIZON_SECONDS = 0.2  # tokens that come back within these are leased ahead
RENEW_SECONDS = 0.15  # between two writes to a bucket's row, while it is in use
SLACK_SECONDS = 0.85  # so much longer a leased token may wait for a runner
DELIVERY_SECONDS = 0.25  # that may pass from a start to what it counts as, where no write tells
ASK_SECONDS = 1.0  # between two looks at a bucket that is empty
FIRST_WANT = 4
PACE_DECAY = 0.8  # from one write to the next
DURATIONS = 50  # of deliveries, of which the shortest one counts
WANT_MAX = 1000  # tokens of one lease
Tokens = tuple[float, int]  # so many at a time, by the monotonic clock


def _by(clock: ClockReading, tokens: list[Tokens]) -> list[Tokens]:
    """The same by the database's clock."""
    return [(clock.latest(at), count) for at, count in tokens]


@dataclass(slots=True, eq=False)
class Turn:
    """The tokens of one job, or batch: by the monotonic clock, when it may start, and did."""

    lease: "TokenLease"
    at: float
    count: int
    rank: float  # the rate, a second: who has the lowest one goes first
    held: int = 0  # of the lease
    begun: float | None = None
    ended: float | None = None
    is_void: bool = False

    def begin(self) -> bool:
        """Whether the tokens are still ours; from here on they are used."""
        # In this order: what is void meanwhile has begun all the same.
        self.begun = now = process_clock.monotonic()
        if self.is_void or now > self.lease.until:
            self.begun = None
        return self.begun is not None

    def end(self) -> None:
        self.ended = self.ended or process_clock.monotonic()

    @property
    def leased(self) -> int:
        """How many tokens of the lease are not for others."""
        return self.held if self.begun is None else max(self.held, self.count)


@dataclass(eq=False)
class TokenLease:
    """What a claimer holds of one bucket."""

    using: str
    job_table: str
    name: str
    limiter: Limiter
    key: str
    queue: str = ""  # one of those that take from it
    turns: list[Turn] = field(default_factory=list)
    spare: deque[float] = field(default_factory=deque)  # when each may be used
    until: float = 0.0
    ask_at: float = 0.0
    blocked_until: float = 0.0
    tokens_at: float = 0.0  # when there are some again, as far as is known
    mean_cost: float = 1.0
    saves: int = 0  # tokens that the next job costs
    # Tokens that are nobody's any more, by when each might have been used.
    _unused: list[tuple[float, int]] = field(default_factory=list)
    _rank: float = 0.0
    _used: float = 0.0  # between two writes
    _durations: deque[float] = field(default_factory=lambda: deque(maxlen=DURATIONS))

    @property
    def jobs_max(self) -> int:
        """How many jobs to claim: what cannot start soon is left to others."""
        return max(1, int(len(self.spare) / self.mean_cost))

    def turn_of(self, cost: int) -> Turn | None:
        """A turn that takes so many tokens; None where there are not enough. A job that costs more
        than a whole bucket holds takes all of it."""
        self.mean_cost = 0.9 * self.mean_cost + 0.1 * cost
        held = min([cost, *[rate.limit for rate in self.limiter.rates(self.queue)]])
        if len(self.spare) < held:
            self.saves, self.ask_at = cost, 0.0
            self._drop_spare()
            return None
        at = max(self.spare.popleft() for _ in range(held))
        turn = Turn(self, at, cost, self._rank, held)
        self.turns.append(turn)
        return turn

    def renew(self, is_wanted: bool) -> None:
        """Write what was used, and lease what the next moments allow, in one write."""
        rates = self.limiter.rates(self.queue)
        self._rank = min((rate.limit / rate.seconds for rate in rates), default=0.0)
        self._drop_what_expired()
        if not is_wanted:
            self._drop_spare()
        still, used, unused = self._sorted_turns()
        kept = sum(turn.leased for turn in still) + len(self.spare)
        want = self._wanted(len(used), still) if is_wanted else 0

        def work(bucket: Bucket, clock: ClockReading) -> tuple[list[float], float, float] | None:
            if self._has_expired(clock.before):
                return None
            until = clock.now + HORIZON_SECONDS + SLACK_SECONDS
            bucket.renew(self.key, kept, until, _by(clock, used), _by(clock, unused))
            times, wait = self._leased(bucket, until, want - len(self.spare)) if want else ([], 1.0)
            ends_at = clock.earliest(until) - DELIVERY_SECONDS
            return [clock.surely(at) for at in times], ends_at, wait

        buckets = RateBucket.objects.db_manager(self.using)
        burst = self.limiter.burst(self.queue)
        done = buckets.change(self.job_table, self.name, rates, work, burst)
        if done is None:
            self.ask_at = process_clock.monotonic() + RENEW_SECONDS
            return
        times, self.until, wait = done
        self.turns, self._unused = still, []
        self.spare.extend(times)
        self._ask_later(wait, is_wanted)

    def _sorted_turns(self) -> tuple[list[Turn], list[Tokens], list[Tokens]]:
        """Those that hold tokens still; what the others have used, and what nobody uses."""
        moment = process_clock.monotonic()
        still: list[Turn] = []
        used: list[Tokens] = []
        unused = list(self._unused)
        for turn in self.turns:
            if turn.is_void and turn.begun is None:
                unused.append((turn.at, turn.leased))
            elif (at := self._used_at(turn, moment)) is None:
                still.append(turn)
            else:
                used.append((at, turn.count))
                unused.append((turn.at, turn.leased - turn.count))
        return still, used, unused

    def _has_expired(self, now: float) -> bool:
        """Whether others may soon have what is not used."""
        held = self.spare or any(turn.begun is None and not turn.is_void for turn in self.turns)
        return bool(held) and now > self.until

    def _drop_what_expired(self) -> None:
        if self._has_expired(process_clock.monotonic()):
            self._drop_spare()
            for turn in self.turns:
                turn.is_void = turn.is_void or turn.begun is None

    def _drop_spare(self) -> None:
        self._unused += [(at, 1) for at in self.spare]
        self.spare.clear()

    def _used_at(self, turn: Turn, now: float) -> float | None:
        if turn.begun is None:
            return None
        if turn.ended is not None:
            self._durations.append(turn.ended - turn.begun)
        fastest = min(self._durations) if len(self._durations) == DURATIONS else 0.0
        return self.limiter.used_at(turn.begun, turn.ended, now, fastest)

    def _wanted(self, used: int, turns: Sequence[Turn]) -> int:
        """As many as were used since the last write; twice as many where none waits any more. What
        waits longer than that had better be another's."""
        self._used = max(used, PACE_DECAY * self._used)
        now = process_clock.monotonic()
        if not any(turn.begun is None and turn.at < now for turn in turns):
            return min(WANT_MAX, ceil(2 * self._used) + FIRST_WANT)
        waiting = sum(turn.begun is None for turn in turns)
        return max(0, ceil(self._used) + 1 - waiting)

    def _leased(self, bucket: Bucket, until: float, want: int) -> tuple[list[float], float]:
        """When the tokens that are leased may be used, and seconds until the next write."""
        need = max(1, self.saves, bucket.saving)
        if want <= 0 and need == 1:
            return [], RENEW_SECONDS
        offer = bucket.offer(max(1, want), HORIZON_SECONDS, need)
        if not offer.times:
            if self.saves:
                bucket.save_up(self.saves)
            return [], offer.wait
        bucket.take(self.key, until, offer.times)
        bucket.saving = 0
        return offer.times, RENEW_SECONDS if len(offer.times) < want else RENEW_SECONDS / 2

    def _ask_later(self, wait: float, is_wanted: bool) -> None:
        now = process_clock.monotonic()
        self.ask_at, self.tokens_at = now + min(wait, ASK_SECONDS), now + wait
        if self.spare or not is_wanted:
            self.saves = 0
        elif not self.turns:
            self.blocked_until = self.ask_at
        if self.turns:
            self.ask_at = min(self.ask_at, now + RENEW_SECONDS)
