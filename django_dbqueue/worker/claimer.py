"""Claims ahead of the runners, as much as they are seen to need."""

import logging
import random
import time
from collections.abc import Callable
from typing import Any

from django.db.utils import Error

from .. import events
from ..dialects import Dialect
from ..lifecycle.suspects import suspects_among
from ..lifecycle.table import Table
from .assignment import QueueName
from .buffer import Allotment, Buffer, Item, JobSizes, items_of
from .joint_claim import claim_in_turn
from .keyed_ahead import KeyedAhead
from .options import Options
from .ordered_queues import scheduler_of
from .queue_poller import TablePoller
from .rate_gate import RateGate
from .reconcile import InHand, Reconciler
from .session import ReconnectBackoff, Session
from .shared_memory import Role, SharedMemory
from .turns import TokenLease
from .waiting_suspects import WaitingSuspects
from .wakeup import Wakeup

logger = logging.getLogger("django_dbqueue")

CLAIM_BATCH_MAX = 100  # jobs a claim, when the batch may grow
AHEAD_SECONDS = 0.25  # of work to fetch ahead
RECHECK_SECONDS = 0.2  # between looks whether a pause is over
HOLD_SECONDS = 5.0  # until what no runner took is given back


class Claimer:
    """One thread's part: find a queue, claim a batch, put it into the buffer."""

    hold_claims = False
    is_idle = False
    # Queues that were others' since the last turn.
    gives_away: frozenset[QueueName] = frozenset()

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
        role: Role = Role.ORDINARY,
    ) -> None:
        self.options = options
        self.role = role
        self.owner_prefix = owner_prefix
        self.buffer = buffer
        self.shared = shared
        self.wakeup = wakeup
        self.session = Session(set(wakeup.aliases), on_connect=self._on_connect)
        self.reconciler = Reconciler(owner_prefix, in_hand)
        self.allotment = Allotment(float("inf") if share is None else share)
        self.unwritten = unwritten
        self.scheduler = scheduler_of(options)
        self.gate = RateGate(self)
        self.sizes = JobSizes()
        # What was fetched ahead of the first queue runs before it: until jobs are seen to be quick,
        # one by one.
        is_careful = bool(options.queue_order) and options.batch_grows
        self.batch = 1 if is_careful else options.batch_size
        self.keyed_ahead = KeyedAhead()
        self.suspects = WaitingSuspects(shared, self.release, HOLD_SECONDS)
        # Of tables whose outcomes cannot be written.
        self.of_locked_tables: list[Item] = []
        # Since when there is nothing ready: only a look that began when all was done tells.
        self._empty_since = float("inf")
        self._quiet_since = float("inf")
        self.backoff = ReconnectBackoff("claiming")
        self._filled_at = time.monotonic()
        self._was_full = False

    @property
    def left(self) -> float:
        return self.allotment.left

    @left.setter
    def left(self, left: float) -> None:
        self.allotment.left = left

    def next_owner(self) -> str:
        return f"{self.owner_prefix}{next(self.allotment.numbers)}"

    def _on_connect(self, dialect: Dialect) -> None:
        dialect.keep_to_indexes()
        dialect.end_silent_transactions()
        dialect.listen()
        self.reconciler.reconnected(dialect.connection.alias)

    def turn(self) -> float:
        """Do one thing that needs doing; seconds until there may be another."""
        self.is_idle = False
        try:
            self.session.prepare()
            self.reconciler.settle()
            self._settle_unstarted()
            self.suspects.look()
            self.reconciler.turn()
            if self.gives_away:
                self.give_back(of=self.gives_away)
                self.gives_away = frozenset()
            if len(self.buffer) and time.monotonic() - self._filled_at >= HOLD_SECONDS:
                # What waits for long behind slow jobs may be done sooner by another worker.
                self.batch = 1
                self.give_back()
                pause = 0.1
            elif self.shared.paused:
                self.give_back()
                pause = RECHECK_SECONDS
            elif self.hold_claims or self.left == 0 or self.buffer.ahead > self.buffer.refill_at:
                pause = 1.0  # a runner wakes us sooner
            else:
                pause = self.claim()
            if self.gate.is_used:
                pause = min(pause, self.gate.turn())
            self.backoff.worked()
        except Error as error:
            self.scheduler.forget_low_water_marks()
            self.session.recover(error)
            pause = self.backoff.failed(error)
        return pause

    def sleep(self, seconds: float) -> bool:
        """Between two turns; where there was nothing to claim, new jobs wake it: whether so."""
        if not self.is_idle:
            self.wakeup.sleep(seconds)
            return False
        try:
            news = self.wakeup.sleep_until_news(seconds)
        except Error:
            news = True  # the look will tell which
        if news:
            self.wakeup.hesitate()
            self.scheduler.look_now()
        return news

    def empty_for(self) -> float:
        """Seconds for which there has been nothing to claim; less than 0 = there may be."""
        return time.monotonic() - self._empty_since

    def claim(self) -> float:
        """From the queue whose turn it is; seconds until another claim."""
        # Only a look that began when nothing was under way proves that there is no more.
        if self.buffer.under_way or self.unwritten() or self.suspects or self.reconciler.put_off:
            self._quiet_since = float("inf")
        elif self._quiet_since == float("inf") and not self.scheduler.knows_some:
            self._quiet_since = time.monotonic()
            self.scheduler.look_again()
        found = self.scheduler.next()
        is_empty = found is None and self.scheduler.all_looked_at(since=self._quiet_since)
        self.note_empty(is_empty and not (self.gate.is_used and self.gate.may_have_work))
        if found is None:
            self.is_idle = True
            return self.scheduler.wait()
        jobs = self.claim_from(*found)
        # Others were faster: let them pass.
        return 0.0 if jobs else random.uniform(0.001, 0.005)

    def note_empty(self, is_empty: bool) -> None:
        if not is_empty:
            self._empty_since = float("inf")
        elif self._empty_since == float("inf"):
            self._empty_since = time.monotonic()

    def claim_from(
        self, poller: TablePoller, queue: str, lease: TokenLease | None = None
    ) -> list[Any]:
        """Claim a batch, where the queue has a rate no more than the lease allows."""
        table = self.options.table(poller.served.model, poller.served.using)
        if lease is None:
            self.adapt(table)
        most = self.batch if lease is None else lease.jobs_max
        limit = int(min(most, self.sizes.jobs_max(table), self.left))
        owner = self.next_owner()
        # Before the claim: a beat that was missed meanwhile may have cost us what it takes.
        claimed_at, epoch = time.monotonic(), self.shared.epoch(poller.served.using)
        self.reconciler.claiming(table, owner)
        floors, keyed = poller.floors.for_claim(queue), self._keyed_most(table)
        asked = self.scheduler.asked(poller, queue, table) if lease is None else [queue]
        note = self.sizes.note
        asked, found = claim_in_turn(table, asked, limit, owner, floors, note, keyed)
        self.reconciler.unsure.pop()
        jobs = self.scheduler.note(poller, table, found, limit, floors)
        self.left -= len(jobs)
        is_full = self._was_cut(jobs, keyed) or len(jobs) == limit
        self._was_full = is_full if lease is None else self._was_full
        # Where others claim the same rows some are missing.
        if lease is None:
            lost_some = table.dialect.lost_some
            self.scheduler.empty(poller, *poller.breadth.emptied(asked, found, is_full, lost_some))
        elif 2 * len(jobs) < limit:
            self.scheduler.empty(poller, queue)
        suspected = suspects_among(jobs) if self.role is Role.ORDINARY else []
        others = [job for job in jobs if job not in suspected] if suspected else jobs
        if poller.limiter is not None:
            others = self.gate.without_strays(table, owner, others, poller.limiter)
        items = items_of(table, owner, others, claimed_at, epoch)
        self.put(items if lease is None else self.gate.with_turns(items, lease))
        if suspected:
            self.suspects.add([Item(table, owner, [job], claimed_at, epoch) for job in suspected])
        events.claimed(table, found)
        return jobs

    def _was_cut(self, jobs: list[Any], keyed: int | None) -> bool:
        """Whether a claim took as many jobs with keys as it might: then there may be more."""
        if keyed is None:
            return False
        is_cut = self.keyed_ahead.claimed(jobs, keyed)
        if self.keyed_ahead.meets_keys:
            self.buffer.refill_at = min(self.buffer.refill_at, self.keyed_ahead.refill_at)
        return is_cut

    def _keyed_most(self, table: Table) -> int | None:
        if not table.takes_keys:
            return None
        elapsed = time.monotonic() - self._filled_at
        return self.keyed_ahead.most(-self.buffer.ahead, elapsed, CLAIM_BATCH_MAX)

    def adapt(self, table: Table) -> None:
        """Let the batch follow the rate at which the runners empty it."""
        elapsed = time.monotonic() - self._filled_at
        is_fast = self._was_full and elapsed < AHEAD_SECONDS
        batch_max = CLAIM_BATCH_MAX if self.options.batch_grows else 1
        batch_max = max(batch_max, self.options.batch_size)
        if is_fast:
            self.batch = min(batch_max, self.batch * 2)
        elif self._was_full and elapsed > 4 * AHEAD_SECONDS:
            self.batch = max(1, self.batch // 2)
        if table.takes_batches:
            refill_at = 1  # one item holds all of a claim
        elif is_fast and self.batch == batch_max:
            # Runners that are so quick shall never wait for a claim.
            refill_at = self.batch * 3 // 2 - 1
        else:
            refill_at = self.batch // 2
        self.buffer.refill_at = min(refill_at, self.sizes.jobs_max(table))

    def put(self, items: list[Item]) -> None:
        if items:
            # They may have ended, and enqueued others, before the next turn.
            self._filled_at, self._quiet_since = time.monotonic(), float("inf")
            self.wakeup.found_work()
            self.buffer.put(items)

    def _settle_unstarted(self) -> None:
        """Give back what runners may not start; what is of a locked table waits for it."""
        while self.buffer.unstarted:
            item = self.buffer.unstarted[0]
            if item.table.place in self.scheduler.locked_tables:
                self.of_locked_tables.append(item)
            else:
                self.release([item])
            # In this order: what is in nobody's hand is given back as unknown.
            self.buffer.unstarted.popleft()
        if self.of_locked_tables and not self.scheduler.locked_tables:
            self.buffer.put(self.of_locked_tables)
            self.of_locked_tables = []

    def give_back(self, of: frozenset[QueueName] | None = None) -> None:
        """Release all that no runner has taken, or those of some queues; on trouble what is left
        goes back to the buffer."""
        items, given = self.buffer.withdraw(), 0
        if of is not None:
            self.buffer.put([item for item in items if item.queue_name not in of])
            items = [item for item in items if item.queue_name in of]
        try:
            while items:
                of_one_claim = [item for item in items if item.owner == items[0].owner]
                given += self.release(of_one_claim)
                items = [item for item in items if item.owner != of_one_claim[0].owner]
        finally:
            self.buffer.put(items)
        if given:
            logger.info("gave back what had not started; jobs: %d", given)
        if of is None:
            self.suspects.give_back()

    def release(self, items: list[Item], delay: float = 0) -> int:
        """Give back what came with one claim; how many jobs."""
        for item in items:
            item.give_back()
        keys = [job.claim_key for item in items for job in item.jobs]
        table = items[0].table.on_this_thread()
        given = self.reconciler.release(table, items[0].owner, keys, delay)
        self.left += len(keys)
        return given
