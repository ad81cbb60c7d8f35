"""How many jobs may start in a second, a minute, a day: the arithmetic of a token bucket.

A bucket holds a period's worth of tokens. A token comes back one period after it was used, so that
no period, wherever it begins, sees more than the limit. (A bucket that is refilled evenly lets
twice as many through: all that it held, and what flows in meanwhile.) Workers lease tokens ahead,
also those that come back within the next moments, and write later when they were used.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

PERIODS = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0}
SHORT = {"s": "second", "sec": "second", "min": "minute", "m": "minute", "h": "hour", "d": "day"}
MAX_LIMIT = 10**9
# Tokens that come back within such a part of a period are kept together.
GROUPS_PER_PERIOD = 200
# A token comes back so much later, since clocks are read in steps.
RETURN_DELAY_SECONDS = 0.001
# Of the future we know nothing beyond this: the clock was set back.
AHEAD_SECONDS_MAX = 10.0
# When so many tokens come back.
Groups = list[list[Any]]
MIN_WAIT_SECONDS = 0.005
LATE_SHARE = 0.1  # of a period: so much later than its beginning a use counts at the most


@dataclass(frozen=True)
class Rate:
    """So many tokens in a period."""

    limit: int
    period: str

    @property
    def seconds(self) -> float:
        return PERIODS[self.period]

    def back_after(self, count: int) -> float:
        """Seconds; for more tokens than a period has, as many periods as they take."""
        return self.seconds * max(1.0, count / self.limit) + RETURN_DELAY_SECONDS

    def __str__(self) -> str:
        return f"{self.limit:,} {'an' if self.period == 'hour' else 'a'} {self.period}"


def rates_of(given: Any, name: str) -> list[Rate]:
    """Read ``"50/s"``, ``"1000/h"`` or ``{"second": 14, "day": 50000}``; ``ValueError`` names what
    is wrong in it."""
    if isinstance(given, str):
        limit, _, period = given.partition("/")
        word = SHORT.get(period.strip(), period.strip())
        if word not in PERIODS or not limit.strip().isdecimal():
            raise ValueError(f"{name} must be as '50/s', '100/min', '1000/h' or '5000/d'")
        given = {word: int(limit)}
    if not isinstance(given, Mapping):
        raise ValueError(f"{name} must be a dict as {{'second': 14}}, not {given!r:.80}")
    for period, limit in given.items():
        if period not in PERIODS:
            raise ValueError(f"{name}: a period is one of {', '.join(PERIODS)}, not {period!r:.80}")
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            raise ValueError(f"{name} must allow at least 1 a {period}, not {limit!r:.80}")
        if limit > MAX_LIMIT:
            raise ValueError(f"{name} must allow at most {MAX_LIMIT} a {period}, not {limit!r:.80}")
    return [Rate(limit, period) for period, limit in given.items()]


@dataclass(frozen=True)
class Lease:
    """Tokens that a worker holds: they come back at ``back_at`` if nothing is heard of it."""

    count: int
    until: float


@dataclass(frozen=True)
class Offer:
    """When the next tokens may be used; if there are none, after how many seconds to ask again."""

    times: list[float]
    wait: float = 0.0


class Bucket:
    """What a row holds, at one moment; times are those of the database, in seconds."""

    def __init__(
        self, stored: Any, rates: Iterable[Rate], now: float, burst: int | None = None
    ) -> None:
        self.rates, self.now, self.burst = list(rates), now, burst
        out, leases, self.even_at, self.saving, self.saving_until = _read(stored)
        self.out = {rate.period: _still_out(out, rate, now) for rate in self.rates}
        longest = max((rate.seconds for rate in self.rates), default=0.0)
        self.leases = {
            name: lease
            for name, lease in leases.items()
            if now - longest * 2 < lease.until < now + AHEAD_SECONDS_MAX
        }
        if not now <= self.saving_until < now + longest * 2 + AHEAD_SECONDS_MAX:
            self.saving = 0

    def stored(self) -> dict[str, Any]:
        leases = {name: [one.count, round(one.until, 3)] for name, one in self.leases.items()}
        found: dict[str, Any] = {"out": self.out, "leases": leases}
        if self.burst:
            found["even_at"] = self.even_at
        if self.saving:
            found["saving"] = [self.saving, self.saving_until]
        return found

    def used(self, rate: Rate) -> int:
        """How many tokens of a period are out."""
        return self._leased(rate) + sum(int(count) for _, count in self.out[rate.period])

    @property
    def is_empty(self) -> bool:
        return any(self.used(rate) >= rate.limit for rate in self.rates)

    @property
    def is_used_up(self) -> bool:
        """Whether that is so because jobs have started: what is leased may merely wait for one."""
        return any(
            self.used(rate) >= rate.limit
            and 2 * (self.used(rate) - self._leased(rate)) >= rate.limit
            for rate in self.rates
        )

    def offer(self, want: int, horizon: float, need: int = 1) -> Offer:
        """Up to ``want`` tokens that may be used within ``horizon`` seconds, but none at all as
        long as there are fewer than ``need``."""
        times = self._times(max(want, need), self.now + horizon)
        is_full = any(len(times) >= rate.limit for rate in self.rates)
        if not times or (len(times) < need and not is_full):
            return Offer([], self._wait(need, horizon))
        spread = self._even(times)[0]
        soon = [at for at in spread if at <= self.now + horizon]
        return Offer(soon, max(MIN_WAIT_SECONDS, spread[0] - self.now - horizon))

    def renew(
        self,
        name: str,
        kept: int,
        until: float,
        used: Iterable[tuple[float, int]],
        unused: Iterable[tuple[float, int]] = (),
    ) -> None:
        """Write what was used of a lease, by time and count, and what is given back, by the time
        before which nobody may use it; of the rest so many are kept."""
        before = self.leases.pop(name, Lease(0, 0.0))
        known = kept
        for at, count in used:
            self.note_used(at, count)
            known += count
        for at, count in unused:
            self._give_back(at, count)
            known += count
        # What its holder does not know of was written, but the answer was lost.
        self._give_back(before.until, before.count - known)
        if kept:
            self.leases[name] = Lease(kept, until)

    def take(self, name: str, until: float, times: list[float]) -> None:
        """Lease more tokens, ``times`` as they were offered."""
        if not times:
            return
        for rate in self.rates:
            _pop(self.out[rate.period], len(times) - max(0, rate.limit - self.used(rate)))
        self.even_at = self._even(times)[1]
        before = self.leases.get(name)
        self.leases[name] = Lease(len(times) + (before.count if before else 0), until)

    def note_used(self, at: float, count: int) -> None:
        """Tokens that are in no lease any more were used at this time."""
        for rate in self.rates if count else ():
            back_at = at + rate.back_after(count)
            _add(self.out[rate.period], back_at, count, rate.seconds / GROUPS_PER_PERIOD)

    def _give_back(self, at: float, count: int) -> None:
        """What was leased ahead has not come back yet: its last use is less than a period ago."""
        for rate in self.rates if count > 0 and at > self.now else ():
            _add(self.out[rate.period], at, count, PERIODS["second"] / GROUPS_PER_PERIOD)

    def save_up(self, count: int) -> None:
        """The next job costs so many tokens: until they are there nobody gets any."""
        self.saving = count
        self.saving_until = self.now + self._wait(count, 0.0) + 2.0

    def _leased(self, rate: Rate) -> int:
        ends = rate.seconds * (1 + LATE_SHARE) + RETURN_DELAY_SECONDS
        return sum(one.count for one in self.leases.values() if one.until + ends > self.now)

    def _times(self, want: int, until: float) -> list[float]:
        """When the next tokens are there, of all rates; those that are leased may come later."""
        columns = [
            _returns(self.out[r.period], r.limit - self.used(r), self.now, want, until)
            for r in self.rates
        ]
        return [max(times) for times in zip(*columns, strict=False)]

    def _even(self, times: list[float]) -> tuple[list[float], float]:
        """No more than ``burst`` at once, the others one after the other; when all may go again."""
        if not self.burst or not self.rates:
            return times, 0.0
        rate = min(self.rates, key=lambda one: one.seconds)
        step, end, found = rate.seconds / rate.limit, self.even_at, []
        if end > self.now + AHEAD_SECONDS_MAX + rate.seconds:
            end = 0.0
        for time in times:
            at = max(time, end - (self.burst - 1) * step)
            end = max(end, at) + step
            found.append(at)
        return found, end

    def _wait(self, need: int, horizon: float) -> float:
        """Seconds until so many tokens may be there within the horizon."""
        waits = [MIN_WAIT_SECONDS]
        for rate in self.rates:
            missing = self.used(rate) + min(need, rate.limit) - rate.limit
            for back_at, count in self.out[rate.period]:
                if missing <= 0:
                    break
                missing -= count
                waits.append(back_at - horizon - self.now)
            if missing > 0:
                # Leased, and maybe given back soon.
                waits.append(min(rate.seconds, 2.0) / 10)
        return max(waits)


Stored = tuple[dict[str, Groups], dict[str, Lease], float, int, float]


def _read(stored: Any) -> Stored:
    """What a row says; nothing where it makes no sense."""
    try:
        out = {
            str(period): [[float(at), int(count)] for at, count in groups]
            for period, groups in stored.get("out", {}).items()
        }
        leases = {
            str(name): Lease(int(count), float(until))
            for name, (count, until) in stored.get("leases", {}).items()
        }
        saving, until = stored.get("saving") or (0, 0.0)
        return out, leases, float(stored.get("even_at", 0.0)), int(saving), float(until)
    except (AttributeError, TypeError, ValueError):
        return {}, {}, 0.0, 0, 0.0


def _still_out(out: dict[str, Groups], rate: Rate, now: float) -> Groups:
    def is_out(at: float, count: float) -> bool:
        return now < at <= now + rate.back_after(int(count)) + AHEAD_SECONDS_MAX

    return sorted([at, int(count)] for at, count in out.get(rate.period, []) if is_out(at, count))


def _returns(groups: Groups, free: int, now: float, want: int, until: float) -> list[float]:
    found = [now] * min(want, max(0, free))
    missing = max(0, -free)
    for at, count in groups:
        if len(found) >= want or at > until:
            break
        debt = min(missing, int(count))
        missing -= debt
        found += [max(at, now)] * (int(count) - debt)
    return found[:want]


def _add(groups: Groups, back_at: float, count: int, slot: float) -> None:
    """Together with its neighbours it comes back with the last of them, never too soon."""
    for index, (other, others) in enumerate(groups):
        if math.floor(other / slot) == math.floor(back_at / slot):
            groups[index] = [round(max(other, back_at), 4), others + count]
            break
    else:
        groups.append([round(back_at + 0.00005, 4), count])
    groups.sort()


def _pop(groups: Groups, count: int) -> None:
    """Take tokens from those that come back next."""
    while count > 0 and groups:
        if groups[0][1] > count:
            groups[0][1] -= count
            return
        count -= int(groups.pop(0)[1])
