"""Workers at a mailer's limit, played with a clock of our own: the rules are those of its row."""

import heapq
import random
from collections import Counter
from datetime import UTC, datetime, timedelta

from django_dbqueue.mail.models import Mailer

BEGIN = datetime(2026, 11, 22, tzinfo=UTC)


class Mail:
    """One message, as its row has it."""

    def __init__(self, key, count=1, at=0.0, *, is_urgent=False):
        self.key, self.count, self.at, self.is_urgent = key, count, at, is_urgent
        self.turn_at = self.sent_at = None
        self.asks = 0


class Line:
    """A mailer's row and some workers; ``late`` seconds at most until a due mail is claimed,
    no worker from ``down[0]`` to ``down[1]``."""

    def __init__(
        self, workers=4, asking=0.003, sending=0.02, late=0.06, down=(0, 0), seed=20261122
    ):
        self.row = Mailer(name="smtp")
        self.row._write = self._write
        self.asking, self.sending, self.late = asking, sending, late
        self.free = [0.0] * workers
        self.down = down
        self.random = random.Random(seed)

    def _write(self, **columns):
        self.row.__dict__.update(columns)
        return True

    def run(self, mails, until=float("inf")):
        """Play until all are sent, or the clock stands at ``until``."""
        waiting = [(mail.at, mail.key, mail) for mail in mails]
        heapq.heapify(waiting)
        ready, now = [], 0.0
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

    def ask(self, mail, now):
        mail.asks += 1
        self.row.now = BEGIN + timedelta(seconds=now)
        turn = self.row.judge(mail.count, mail.turn_at, mail.is_urgent)
        mail.turn_at = turn.at
        if not turn.wait:
            mail.sent_at = now
        return turn.wait


def figures(mails, limit, period=1.0):
    """What can be said of those that were sent: most in a period, share of the limit, asks."""
    gone = sorted((mail.sent_at, mail.count) for mail in mails if mail.sent_at is not None)
    sent = sum(count for _, count in gone)
    took = gone[-1][0] - gone[0][0] + period
    asks = sum(mail.asks for mail in mails)
    return most_in_a_period(gone, period), sent * period / limit / took, asks / len(mails)


def most_in_a_period(gone, period):
    most = total = first = 0
    for at, count in gone:
        total += count
        while gone[first][0] <= at - period:
            total -= gone[first][1]
            first += 1
        most = max(most, total)
    return most


def spread_of_asks(mails):
    return Counter(mail.asks for mail in mails)
