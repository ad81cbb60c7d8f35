"""Workers at a mailer's limit, played with a clock of our own: the rules are those of its row."""

import heapq
import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django_dbqueue.mail.models import Mailer

BEGIN = datetime(2026, 11, 22, tzinfo=UTC)


class Mail:
    """One message, as its row has it."""

    def __init__(
        self, key: int, count: int = 1, at: float = 0.0, *, is_urgent: bool = False
    ) -> None:
        self.key, self.count, self.at, self.is_urgent = key, count, at, is_urgent
        self.turn_at: datetime | None = None
        self.sent_at: float | None = None
        self.asks = 0


class Line:
    """A mailer's row and some workers; ``late`` seconds at most until a due mail is claimed,
    no worker from ``down[0]`` to ``down[1]``."""

    def __init__(
        self,
        workers: int = 4,
        asking: float = 0.003,
        sending: float = 0.02,
        late: float = 0.06,
        down: tuple[float, float] = (0, 0),
        seed: int = 20261122,
    ) -> None:
        self.row = Mailer(name="smtp")
        self.row._write = self._write  # type: ignore[method-assign]
        self.asking, self.sending, self.late = asking, sending, late
        self.free = [0.0] * workers
        self.down = down
        self.random = random.Random(seed)

    def _write(self, **columns: Any) -> bool:
        self.row.__dict__.update(columns)
        return True

    def run(self, mails: Sequence[Mail], until: float = float("inf")) -> None:
        """Play until all are sent, or the clock stands at ``until``."""
        waiting = [(mail.at, mail.key, mail) for mail in mails]
        heapq.heapify(waiting)
        ready: list[tuple[bool, int, Mail]] = []
        now = 0.0
        while waiting or ready:
            now = max(now, heapq.heappop(self.free))
            if not ready:
                now = max(now, waiting[0][0])
            begin, end = self.down
            now = end if begin <= now < end else now
            while waiting and waiting[0][0] <= now:
                _, key, mail = heapq.heappop(waiting)
                heapq.heappush(ready, (not mail.is_urgent, key, mail))
            if now > until:
                break
            _, _, mail = heapq.heappop(ready)
            wait = self.ask(mail, now)
            if wait:
                again = now + wait + self.random.uniform(0, self.late)
                heapq.heappush(waiting, (again, mail.key, mail))
            heapq.heappush(self.free, now + self.asking + (0 if wait else self.sending))

    def ask(self, mail: Mail, now: float) -> float:
        mail.asks += 1
        self.row.now = BEGIN + timedelta(seconds=now)
        turn = self.row.judge(mail.count, mail.turn_at, mail.is_urgent)
        assert turn is not None
        mail.turn_at = turn.at
        if not turn.wait:
            mail.sent_at = now
        return turn.wait


def figures(mails: Sequence[Mail], limit: float, period: float = 1.0) -> tuple[int, float, float]:
    """What can be said of those that were sent: most in a period, share of the limit, asks."""
    gone = sorted((mail.sent_at, mail.count) for mail in mails if mail.sent_at is not None)
    sent = sum(count for _, count in gone)
    took = gone[-1][0] - gone[0][0] + period
    asks = sum(mail.asks for mail in mails)
    return most_in_a_period(gone, period), sent * period / limit / took, asks / len(mails)


def most_in_a_period(gone: Sequence[tuple[float, int]], period: float) -> int:
    most = total = first = 0
    for at, count in gone:
        total += count
        while gone[first][0] <= at - period:
            total -= gone[first][1]
            first += 1
        most = max(most, total)
    return most


def spread_of_asks(mails: Sequence[Mail]) -> Counter[int]:
    return Counter(mail.asks for mail in mails)
