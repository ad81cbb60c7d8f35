"""A job's run, what it writes, and its completion: all of it happens, or nothing does."""

import copy
import logging
import random
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from datetime import date, timedelta
from datetime import time as clock_time
from decimal import Decimal
from functools import cached_property
from typing import Any
from uuid import UUID

from django.db import IntegrityError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import TransactionManagementError
from django.db.utils import Error

from ..dialects import ErrorKind, dialect_of
from ..exceptions import ClaimLost, Undone
from ..guard import capture
from ..lifecycle import holder
from ..lifecycle.execute import Retries
from ..lifecycle.holder import ClaimState
from ..lifecycle.results import results_of
from ..lifecycle.table import Table
from .receipt import Receipt, receipt_of
from .turns import turns_of

logger = logging.getLogger("django_dbqueue")

TRIES = 5
LASTING = 10.0  # seconds for which a transaction should not be open
PRUNE_ONE_IN = 100  # each time up to 500, so that receipts do not pile up
# Values that nobody can change in place.
FIXED = (str, int, float, bytes, Decimal, date, clock_time, timedelta, UUID, type(None))

_nap = threading.Event()


class NotHeld(ClaimLost):
    """In the transaction of its effects the job is not ours, whatever did that."""


class Expired(Exception):
    """The job is not to be run any more, and its effects are not there."""


class ExactlyOnceRun:
    """One job's run in one transaction with its completion, or, in another database, its receipt.

    What the database rolls back for another's sake, and a commit whose answer was lost, is judged
    by the claim; while that is held, nothing has happened, and the job runs again.
    """

    def __init__(self, table: Table, job: Any, work: Callable[[], object]) -> None:
        self.table = table
        self.job = job
        self.work = work
        self.owner, self.key = job.claim_owner, job.claim_key
        if self.owner is None:
            raise ClaimLost(f"{job}: this instance holds no claim")
        self.tries = 0
        self.has_committed = False
        self.claim_state = ClaimState.HELD
        # Whether the last try may have written something after all.
        self._is_doubtful = False
        self._was_refused = False
        self._receipt: Receipt | None = None
        self._before = _kept(job)

    @cached_property
    def effects(self) -> BaseDatabaseWrapper:
        """The connection to the database that the job writes to."""
        named = self.table.policy.exactly_once
        return connections[named if isinstance(named, str) else self.table.connection.alias]

    @property
    def is_apart(self) -> bool:
        return self.effects.alias != self.table.connection.alias

    def run(self) -> None:
        """Run the job until its effects are committed (``has_committed``); raises what it raised,
        with nothing written then, ``ClaimLost``, or ``Expired``."""
        while not self.has_committed:
            try:
                if self.is_wanted():
                    self._try()
            except NotHeld:
                self._is_doubtful = True
                # In its transaction a node of a cluster may not have seen the claim yet.
                can_be_late = self.tries == 1 and self.table.dialect.catch_up()
                self._was_refused = not can_be_late
            except Error as error:
                if self.has_committed:
                    raise  # by what was to follow the commit
                self._is_doubtful = True
                self._wait_after(error)

    def run_and_complete(self) -> None:
        """``run`` for somebody's own loop, with what comes after it."""
        with capture() as run:
            self.run()
        if isinstance(run.error, Expired):
            with transaction.atomic(using=self.effects.alias, durable=True):
                pass  # inside another one it is refused, as a run is
            holder.expire(self.table, self.job)
            self.job.claim_owner = None
            return
        if run.error is not None and not self.has_committed:
            raise run.error
        if run.error is not None:
            logger.error("%s is done, but not what was to follow", self.job, exc_info=run.error)
        if self.is_apart:
            self.job.complete()
            with capture():
                self.prune_sometimes()
        else:
            self.job.claim_owner = None

    def _wait_after(self, error: Error) -> None:
        """Until another try; where there is to be none, the error, unless all is there already."""
        try:
            _nap.wait(self.pause_after(error))
        except Error as last:
            # In another database the claim does not tell whether a lost COMMIT has arrived.
            with capture():
                if self.is_apart and self._receipt is not None:
                    self.effects.close()
                    self.has_committed = self._has_receipt()
            if self.has_committed:
                return
            if (judged := self.job._judged(last)) is not last:
                raise judged from last
            raise

    def pause_after(self, error: Error) -> float:
        """Seconds until another try; raises the error where there is to be none."""
        if self.tries >= TRIES or self.error_kind(error) is not ErrorKind.AGAIN:
            raise error
        Retries.add()
        return random.uniform(0.005, 0.02 * 2**self.tries)

    def error_kind(self, error: Error) -> ErrorKind | None:
        """Told by the dialect of whose driver raised it: another might take it for a lost
        connection, and wait for ever."""
        asked = (dialect_of(self.effects), self.table.dialect)
        return next(
            filter(None, (one.error_kind(error) for one in asked if one.knows(error))), None
        )

    def prune_sometimes(self) -> None:
        """Those who write receipts see to the old ones."""
        if random.randrange(PRUNE_ONE_IN) == 0:
            Receipt.objects.db_manager(self.effects.alias).prune(self.table)

    def is_wanted(self) -> bool:
        """Whether the job is still to be run; ``ClaimLost`` where it is not by us, ``Expired``
        where it is by nobody."""
        if self._is_doubtful and not self._is_held():
            return False
        if self.is_apart:
            self._receipt = self._receipt or receipt_of(self.table, self.job)
            self.has_committed = self._has_receipt()
        if self.job.has_expired and not self.has_committed:
            raise Expired
        return not self.has_committed

    def _is_held(self) -> bool:
        """Whether the claim is still ours, after a try that went wrong. This waits for the lock
        that a lost transaction of ours may hold until the database has ended it."""
        if holder.touch(self.table, self.owner, [self.key], self.job.grace).written:
            if self._was_refused:
                raise Undone(
                    f"{self.job}: its own run deleted its row or ended its claim, so all that it "
                    f"wrote was undone; prune_after = 0 deletes a job as it completes"
                )
            return True
        self.claim_state = holder.claim_state(self.table, self.owner, self.key)
        if self.is_apart or self.claim_state is not ClaimState.DONE:
            is_known = self._was_refused or (
                self.claim_state is ClaimState.LOST and not self.is_apart
            )
            written = "nothing was written" if is_known else "its last commit is unknown"
            raise ClaimLost(f"{self.job}: {self.claim_state.value}; {written}")
        self.has_committed = True
        return False

    def _try(self) -> None:
        alias, has_one_writer = self.effects.alias, dialect_of(self.effects).one_writer
        with turns_of(alias).take() if has_one_writer else nullcontext():
            began = time.monotonic()
            try:
                self._run_in_transaction(alias)
                self.has_committed = True
            except IntegrityError:
                # Of two that run the job, the second one to write the receipt is refused.
                if self.has_committed or not (self.is_apart and self._has_receipt()):
                    raise
                self.has_committed = True
            finally:
                seconds = time.monotonic() - began
                if seconds > LASTING:
                    logger.warning("%s: its transaction was open for %.1f s", self.job, seconds)

    def _run_in_transaction(self, alias: str) -> None:
        if not (self.effects.in_atomic_block or self.effects.get_autocommit()):
            raise TransactionManagementError(f"{alias!r} is not in autocommit: nothing ends it")

        def note_commit() -> None:
            self.has_committed = True

        try:
            with transaction.atomic(using=alias, durable=True):
                # The first one: another one's error keeps those after it from being called.
                transaction.on_commit(note_commit, using=alias)
                # A savepoint: releasing it fails where the transaction is not the same any more,
                # after a deadlock that the job's code kept to itself, DDL, a COMMIT past Django.
                with transaction.atomic(using=alias):
                    self.tries += 1
                    self.job.in_exactly_once_run = True
                    depth = len(self.effects.savepoint_ids)
                    self.work()
                    if len(self.effects.savepoint_ids) != depth:
                        what = f"{self.job}: its run left a block of atomic() open"
                        raise TransactionManagementError(what)
                    # Else a savepoint that is to be rolled back would be, and no more said of it.
                    self.effects.validate_no_broken_transaction()
                self._end()
        finally:
            self.job.in_exactly_once_run = False
            if not self.has_committed:
                self._restore()

    def _end(self) -> None:
        """The last statements: complete the job, or leave a receipt while its claim is held.

        A receipt before the fence: until we commit or roll back, nobody else writes the same one,
        so the job cannot be done, and its receipt pruned, between the fence and the commit.
        """
        if self._receipt is not None:
            self._receipt.save(using=self.effects.alias, force_insert=True)
            held = bool(holder.touch(self.table, self.owner, [self.key], self.job.grace).written)
        else:
            results = results_of(self.table, self.job)
            held = holder.complete_held(self.table, self.owner, self.key, results)
        if not held:
            raise NotHeld(f"{self.job}: its claim is not held; nothing was written")

    def _has_receipt(self) -> bool:
        assert self._receipt is not None
        receipts = Receipt.objects.using(self.effects.alias)
        return receipts.filter(digest=self._receipt.digest).exists()

    def _restore(self) -> None:
        """The instance as it was, so that nothing that was rolled back is saved later."""
        self.job.__dict__.clear()
        self.job.__dict__.update(_copied(self.job, self._before))
        self.job._state.fields_cache.clear()
        self.job._state.adding, self.job._state.db = False, self.table.connection.alias


def _is_open(value: object) -> bool:
    return isinstance(value, dict | list)


def _kept(job: Any) -> dict[str, Any]:
    """The attributes of a job as they are now. Columns whose values may change in place, and are
    no plain JSON, are left out: they are read again when they are asked for."""
    columns, pk = _columns(job), job._meta.pk.attname
    return _copied(
        job,
        {
            name: value
            for name, value in job.__dict__.items()
            if name not in columns or name == pk or _is_open(value) or isinstance(value, FIXED)
        },
    )


def _copied(job: Any, values: dict[str, Any]) -> dict[str, Any]:
    """With columns of their own; what others have hung on the job stays theirs."""
    columns = _columns(job)
    return {
        name: copy.deepcopy(value) if name in columns and _is_open(value) else value
        for name, value in values.items()
    }


def _columns(job: Any) -> set[str]:
    return {column.attname for column in job._meta.concrete_fields}
