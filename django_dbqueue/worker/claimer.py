"""Claims ahead of the runners, as much as they are seen to need."""

import logging
import random
import time
from collections.abc import Callable
from itertools import count

from django.db.utils import Error

from .. import events
from ..dialects import Dialect, ErrorKind
from ..lifecycle import holder, reap, suspects
from ..lifecycle.claim import claim
from ..lifecycle.table import Table
from .buffer import ALLOWANCE, Buffer, Item, items_of
from .job_sizes import JobSizes
from .options import Options
from .queue_poller import QueueScheduler
from .reconcile import InHand, Reconciler
from .session import ReconnectBackoff, Session
from .shared_memory import Role, SharedMemory
from .wakeup import Wakeup

logger = logging.getLogger("django_dbqueue")

MOST = 100  # jobs a claim, when the batch may grow
AHEAD = 0.25  # seconds of work to fetch ahead
LOOK = 0.2  # seconds between looks whether a pause is over
HOLD = 5.0  # seconds until what no runner took is given back
MOST_SUSPECTS = 500  # that wait for a sacrificial child; more are put off


class Claimer:
    """One thread's part: find a lane, claim a batch, put it into the buffer."""

    hands_over = True  # suspects, to sacrificial children
    hold_claims = False
    is_idle = False

    def __init__(
        self,
        options: Options,
        owner_prefix: str,
        buffer: Buffer,
        shared: SharedMemory,
        wakeup: Wakeup,
        share: int | None,
        unwritten: Callable[[], int],
        in_hand: InHand = lambda: None,
    ) -> None:
        self.options = options
        self.owner_prefix = owner_prefix
        self.buffer = buffer
        self.shared = shared
        self.wakeup = wakeup
        self.session = Session(set(wakeup.aliases), on_connect=self._on_connect)
        self.reconciler = Reconciler(owner_prefix, in_hand)
        # How many more jobs this child may claim; None = any number.
        self.left = share
        self.unwritten = unwritten
        self.scheduler = QueueScheduler(options)
        self.sizes = JobSizes()
        self.batch = options.batch_size
        # Claimed, and waiting for a sacrificial child to take them over.
        self.suspects: list[Item] = []
        self._next_look = 0.0
        # Claims whose answer was lost: they may have taken jobs.
        self.unsure: list[tuple[Table, str]] = []
        self._unstarted: Item | None = None
        # What waits for a table whose outcomes cannot be written.
        self._parked: list[Item] = []
        # Since when there is nothing ready: only a look that began when all was done tells.
        self._empty_since = float("inf")
        self.patience = ReconnectBackoff("claiming")
        self._claims = count(1)
        self._filled_at = time.monotonic()
        self._was_full = False
        self._quiet_since = float("inf")

    def _on_connect(self, dialect: Dialect) -> None:
        dialect.keep_to_indexes()
        dialect.listen()
        self.reconciler.reconnected(dialect.connection.alias)

    def turn(self) -> float:
        """Do one thing that needs doing; seconds until there may be another."""
        self.is_idle = False
        try:
            self.session.prepare()
            self._settle_claims()
            self._look_after_suspects(HOLD)
            self.reconciler.turn()
            pause = self._give_back_stale() or self._claim_or_wait()
            self.patience.worked()
            return pause
        except Error as error:
            self.scheduler.forget_low_water_marks()
            self.session.recover(error)
            return self.patience.failed(error)

    def sleep(self, seconds: float) -> None:
        """Between two turns; where there was nothing to claim, new jobs wake it."""
        if not self.is_idle:
            self.wakeup.sleep(seconds)
            return
        try:
            news = self.wakeup.sleep_until_news(seconds)
        except Error:
            news = True  # the look will tell which
        if news:
            self.scheduler.look_now()

    def empty_for(self) -> float:
        """Seconds for which there has been nothing to claim; less than 0 = there may be."""
        return time.monotonic() - self._empty_since

    def _settle_claims(self) -> None:
        while self.unsure:
            table, owner = self.unsure[0]
            # The claim's answer was lost.
            try:
                events.reaped(table, reap.give_back(table, owner))
            except Error as error:
                if (
                    table.dialect.one_writer
                    or table.dialect.error_kind(error) is not ErrorKind.AGAIN
                ):
                    raise
                # What somebody has locked keeps nothing else waiting.
                self.reconciler.look_later(table)
            self.unsure.pop(0)
        while self._unstarted or not self.buffer.unstarted.empty():
            self._unstarted = self._unstarted or self.buffer.unstarted.get()
            if self._unstarted.table.place in self.scheduler.locked:
                self._parked.append(self._unstarted)
            else:
                self._release([self._unstarted])
            self._unstarted = None
        if self._parked and not self.scheduler.locked:
            self.buffer.put(self._parked)
            self._parked = []

    @property
    def kept(self) -> list[Item]:
        """What it has claimed and not put into the buffer, or been given back by a runner."""
        unstarted = [self._unstarted] if self._unstarted else []
        for _ in range(self.buffer.unstarted.qsize()):
            unstarted.append(self.buffer.unstarted.get())
            self.buffer.unstarted.put(unstarted[-1])
        return [*self.suspects, *self._parked, *unstarted]

    def give_back(self) -> None:
        """Release all that no runner has taken; on trouble what is left goes back to the buffer."""
        self._give_back(self.buffer.withdraw())
        self._next_look = 0.0
        self._look_after_suspects(0)

    def _give_back(self, items: list[Item]) -> None:
        given = 0
        try:
            while items:
                claim = [item for item in items if item.owner == items[0].owner]
                given += self._release(claim)
                items = [item for item in items if item.owner != claim[0].owner]
        finally:
            self.buffer.put(items)
        if given:
            logger.info("gave back %d jobs that had not started", given)

    def _give_back_stale(self) -> float:
        """What waits for long behind slow jobs may be done sooner by another worker."""
        if not len(self.buffer) or time.monotonic() - self._filled_at < HOLD:
            return 0.0
        self.batch = 1
        self.give_back()
        return 0.1

    def _claim_or_wait(self) -> float:
        if self.shared.paused:
            self.give_back()
            return LOOK
        if self.hold_claims or self.left == 0 or self.buffer.ahead > self.buffer.refill_at:
            return 1.0  # a runner wakes us sooner
        return self._claim()

    def _hand_over(self, items: list[Item]) -> None:
        """Jobs that may have killed a worker are run by no ordinary child."""
        room = max(0, MOST_SUSPECTS - len(self.suspects))
        self.suspects += items
        for item in items[:room]:
            alone = suspects.runs_alone(item.jobs[0])
            self.shared.hand_over(Role.ALONE if alone else Role.SHARED)
        if excess := items[room:]:
            self._release(excess, delay=HOLD)
            del self.suspects[-len(excess) :]

    def _look_after_suspects(self, patience: float) -> None:
        """Forget those that were taken over; who waits for so many seconds is given back."""
        if self.suspects and time.monotonic() >= self._next_look:
            for owner in {item.owner for item in self.suspects}:
                self._look_after(owner, patience)
            self._next_look = time.monotonic() + LOOK

    def _look_after(self, owner: str, patience: float) -> None:
        others = [item for item in self.suspects if item.owner != owner]
        mine = {item.jobs[0].claim_key: item for item in self.suspects if item.owner == owner}
        table, claimed_at = next((item.table, item.claimed_at) for item in mine.values())
        held = suspects.still_held(table.on_this_thread(), owner, list(mine))
        self.shared.taken += len(mine) - len(held)
        waiting = [mine[key] for key in sorted(held)]
        self.suspects = [*others, *waiting]
        if waiting and time.monotonic() - claimed_at >= patience:
            self._release(waiting)
            self.suspects = others

    def _claim(self) -> float:
        self._note_quiet()
        lane = self.scheduler.next()
        if lane is not None or not self.scheduler.all_looked_at(since=self._quiet_since):
            self._empty_since = float("inf")
        elif self._empty_since == float("inf"):
            self._empty_since = time.monotonic()
        if lane is None:
            self.is_idle = True
            return self.scheduler.wait()
        poller, queue = lane
        table = self.options.table(poller.served.model, poller.served.using)
        self._adapt(table)
        limits = (self.batch, self.sizes.most(table), self.left)
        limit = min(one for one in limits if one is not None)
        owner = f"{self.owner_prefix}{next(self._claims)}"
        # Before the claim: a beat that was missed meanwhile may have cost us what it takes.
        claimed_at, epoch = time.monotonic(), self.shared.epoch(poller.served.using)
        self.unsure.append((table, owner))
        self.reconciler.claimed(table)
        floors = poller.floors.for_claim(queue)
        jobs = claim(table, queue, limit, owner, ALLOWANCE, floors, self.sizes.note)
        self.unsure.pop()
        poller.floors.claimed(queue, jobs, limit, floors)
        self._count(-len(jobs))
        self._was_full = len(jobs) == limit
        if not self._was_full:
            self.scheduler.empty(poller, queue)
        events.claimed(table, queue, jobs)
        odd = [job for job in jobs if suspects.is_suspect(job)] if self.hands_over else []
        sound = [job for job in jobs if job not in odd] if odd else jobs
        self._put(items_of(table, owner, sound, claimed_at, epoch))
        self._hand_over([Item(table, owner, [job], claimed_at, epoch) for job in odd])
        # Others were faster: let them pass.
        return 0.0 if jobs else random.uniform(0.001, 0.005)

    def _note_quiet(self) -> None:
        """Only a look that began when nothing was under way proves that there is no more."""
        if self.buffer.under_way or self.unwritten() or self.suspects:
            self._quiet_since = float("inf")
        elif self._quiet_since == float("inf"):
            self._quiet_since = time.monotonic()
            self.scheduler.look_again()

    def _adapt(self, table: Table) -> None:
        """Let the batch follow the rate at which the runners empty it."""
        elapsed = time.monotonic() - self._filled_at
        is_fast = self._was_full and elapsed < AHEAD
        most = max(MOST if self.options.batch_grows else 1, self.options.batch_size)
        if is_fast:
            self.batch = min(most, self.batch * 2)
        elif self._was_full and elapsed > 4 * AHEAD:
            self.batch = max(1, self.batch // 2)
        if table.takes_batches:
            self.buffer.refill_at = 1  # one item holds all of a claim
        elif is_fast and self.batch == most:
            # Runners that are so quick shall never wait for a claim.
            self.buffer.refill_at = self.batch * 3 // 2 - 1
        else:
            self.buffer.refill_at = self.batch // 2
        self.buffer.refill_at = min(self.buffer.refill_at, self.sizes.most(table))

    def _put(self, items: list[Item]) -> None:
        if items:
            self._filled_at = time.monotonic()
            self.buffer.put(items)

    def _release(self, items: list[Item], delay: float = 0) -> int:
        """Give back what came with one claim; how many jobs."""
        keys = [job.claim_key for item in items for job in item.jobs]
        holder.release(items[0].table.on_this_thread(), items[0].owner, keys, delay)
        self._count(len(keys))
        return len(keys)

    def _count(self, more: int) -> None:
        if self.left is not None:
            self.left += more
