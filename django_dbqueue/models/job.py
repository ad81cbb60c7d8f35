"""The queue table: a model whose rows are jobs."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from django.db import router
from django.db.models.query_utils import DeferredAttribute

from ..exceptions import Bury, ClaimLost, Undone
from ..fields import check_seconds
from ..lifecycle import enqueue, holder, saving
from ..lifecycle.claim_end import OwnEnd
from ..lifecycle.holder import Written
from ..lifecycle.instances import fill
from ..lifecycle.policy import MAX_SECONDS, Policy, policy_of
from ..lifecycle.results import results_of, settle
from ..lifecycle.side_rows import SideRows
from ..lifecycle.table import LIFECYCLE_COLUMNS, Table, table_of
from .columns import JobColumns
from .exactly_once import ExactlyOnceRun
from .index import DedupConstraint, HotIndex, PartialIndex
from .queryset import JobManager

logger = logging.getLogger("django_dbqueue")

# Never written by save(): what the lifecycle owns, and when the row was made.
NOT_SAVED = LIFECYCLE_COLUMNS | {"created_at"}
# What is no expression; asking each value would take most of the time of enqueueing many jobs.
PLAIN = {int, str, bool, float, bytes, list, dict, type(None)}
# Of the worker that runs a job.
UNSHARED = {"restart_clock", "rate_turn", "claim_policy"}
# What people may do in the admin, besides what Django knows: inspect is to see what a job holds.
PERMISSIONS = (
    *("add", "change", "delete", "view"),
    *("inspect", "retry", "bury", "release", "amend", "export"),
)


class Job(JobColumns):
    """A queue table: subclass it with whatever columns a job needs, and say how a row is run.

    A job may run more than once (its worker was killed, or cut off for ``worker_timeout``);
    ``job.idempotency_key`` stays the same over all runs. ``class Policy`` sets the options.
    A subclass's ``Meta`` must inherit from ``Job.Meta``.
    """

    # The owner of the claim that this instance holds; None when it was merely read.
    claim_owner: str | None = None
    # The row that it holds, whatever becomes of the instance's own key.
    claim_key: Any = None
    # Its claim was ended in a transaction, which may have been rolled back since.
    ends_at_commit: bool = False
    # By which it is judged, where its worker was told another one than its table has.
    claim_policy: Policy | None = None
    own_end: OwnEnd | None = None  # of the claim, by its own code
    # Found past expires_at by the claim: not to be run.
    has_expired: bool = False
    # Set by the worker that runs the job: its own watch over the time to run.
    restart_clock: Callable[[], None] | None = None
    # Seconds that a claim outlasts the time to run, for the worker to stop the job.
    grace: float = 0
    rate_turn: Any = None  # its tokens, where its queue has a rate
    exactly_once: bool = False  # also where the policy does not say so
    in_exactly_once_run: bool = False  # the transaction of its run and its end is open
    takes_keys: ClassVar[bool] = False  # it has the columns of KeyedJob
    checked_columns: ClassVar[Mapping[str, Callable[[Any], None]]] = {}  # before it is enqueued
    side_rows: ClassVar[SideRows | None] = None  # by which its jobs are found
    # Numbers of its own, by column, that are written with each burial, whoever buries.
    burial_columns: ClassVar[Mapping[str, Callable[[], int]]] = {}
    never_replaced: ClassVar[frozenset[str]] = frozenset()  # columns, by enqueue(on_duplicate=)

    objects: ClassVar[JobManager] = JobManager()

    class Meta:
        abstract = True
        indexes = [
            HotIndex(fields=["status", "queue", "priority", "id"], where={"status": 0}),
            # Where it is whole, buried jobs, which do not move, are in it by when they failed.
            HotIndex(
                fields=["status", "retry_at"],
                where={"retry_at__isnull": False},
                more=["failed_at"],
            ),
            PartialIndex(fields=["status", "id"], where={"status": 4}),
            PartialIndex(fields=["status", "failed_at", "id"], where={"status": 4}),
            HotIndex(fields=["failure", "failed_at", "id"], where={"failure__isnull": False}),
        ]
        constraints = [DedupConstraint(name="%(app_label)s_%(class)s_dedup")]
        default_permissions = PERMISSIONS

    if not TYPE_CHECKING:  # else nobody would check what Django's own is given

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            if args or not fill(self, kwargs):
                super().__init__(*args, **kwargs)

        __init__.is_quiet = True

    def __str__(self) -> str:
        return f"{self._meta.verbose_name} {self.pk}"

    def run(self) -> None:
        """Do the job. An exception is a failed attempt; ``Retry`` and ``Bury`` say more."""
        raise NotImplementedError(f"{type(self).__name__} defines no run()")

    @property
    def idempotency_key(self) -> str:
        """A key for services that take one: the same for every attempt of this job, also
        after its class was renamed, as long as its table keeps its name."""
        return f"{self._meta.db_table}:{self.pk}"

    @classmethod
    def written_databases(cls) -> list[str]:
        """The aliases on which jobs come in, and on which a worker serves it unless told others."""
        return [router.db_for_write(cls)]

    @classmethod
    def policy(cls) -> Policy:
        return policy_of(cls)

    def complete(self) -> None:
        """Finished well. ``ClaimLost`` when another owner has the job by now.

        Inside a transaction also when the job is done already or gone (the archive may have it):
        what else the transaction wrote was or will be written by another.
        """
        table, owner = self._table(), self._ending_owner()
        if table.connection.get_autocommit():
            written = holder.complete(table, owner, [self.claim_key], results_of(table, self))
            self.own_end = OwnEnd(owner) if written.written else None
            self._end(written)
        elif holder.complete_held(table, owner, self.claim_key, results_of(table, self)):
            self.own_end = OwnEnd(owner)
            self._let_go()
        else:
            raise ClaimLost(f"{self}: its claim has ended: let the transaction roll back")

    def fail(self, error: BaseException | str, seconds: float | None = None) -> None:
        """Finished badly: retried by policy, or buried when the attempts are used up."""
        problem = error if isinstance(error, BaseException) else RuntimeError(error)
        if isinstance(seconds, int | float) and seconds < 0:
            seconds = 0.0  # the caller's clock was set back
        if seconds is not None:
            seconds = check_seconds(seconds, "seconds", MAX_SECONDS)
        owner = self._ending_owner()
        decision = holder.fail(self._table(), self, problem, seconds)
        if decision is None:
            self._say_gone()
        else:
            self.own_end = OwnEnd(owner, problem, decision)
        self._let_go()

    def release(self, delay: float = 0) -> None:
        """Give the job back unharmed, the attempt taken back."""
        table, owner = self._table(), self._ending_owner()
        results = results_of(table, self)
        self._end(holder.release(table, owner, [self.claim_key], delay, results))

    def bury(self, reason: str = "") -> None:
        """Park the job for a person."""
        self.fail(Bury(reason))

    def touch(self) -> None:
        """Restart the time to run."""
        self._judge(holder.touch(self._table(), self._owner(), [self.claim_key], self.grace))
        if self.restart_clock is not None:
            self.restart_clock()

    def holds_claim(self) -> bool:
        """Whether this instance may still end its claim, as far as it knows."""
        if not self.ends_at_commit:
            return self.claim_owner is not None
        # After a rollback, also to a savepoint, Django has left out what was to follow the commit.
        awaited = [callback for _, callback, *_ in self._table().connection.run_on_commit]
        return self.claim_owner is not None and self._forget_claim not in awaited

    def run_exactly_once(self) -> None:
        """``run()`` and the completion in one transaction, for one's own loop over ``claim()``.

        Where it raises, nothing was written (after a lost connection that is unknown), and the
        claim is still held: ``fail()`` it, unless it is ``ClaimLost``. ``Policy.exactly_once`` says
        in which database; ``RuntimeError`` inside ``atomic()``. It may run up to five times, where
        the database asks for another try.
        """
        ExactlyOnceRun(self._table(), self, lambda: settle(self.run())).run_and_complete()  # type: ignore[func-returns-value]

    def _judged(self, error: Exception) -> BaseException:
        """What is told of an error for which its transaction was given up for good."""
        return error

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Enqueue a new job; of an old one write only the columns that the lifecycle leaves alone.

        While the instance holds a claim, ``ClaimLost`` when another owner has the job by now.
        """
        if self._state.adding and kwargs.get("update_fields") is None:
            enqueue.prepare(self)
            self.claim_owner, unread = None, self.expressions()
            # With a key of its own, a new instance would else overwrite the row that has it.
            with saving.saving(self):
                super().save(*args, **kwargs | {"force_insert": True})
            self.forget(unread)
            enqueue.notify_workers(self._table().connection, [self.status])
        else:
            names = self._saved_names(kwargs.get("update_fields"))
            super().save(*args, **kwargs | {"update_fields": names})

    def _do_insert(
        self, manager: Any, using: str, fields: Any, returning_fields: Any, raw: bool
    ) -> Any:
        by_django = partial(super()._do_insert, manager, using, fields, returning_fields, raw)  # type: ignore[misc]
        if raw:
            return by_django()
        table = table_of(type(self), using)
        return saving.insert(table, self, fields, returning_fields, by_django)

    def _saved_names(self, asked: Iterable[str] | None) -> list[str]:
        if asked is None:
            left_out = NOT_SAVED | self.get_deferred_fields()
            fields = [f for f in self._meta.concrete_fields if not f.primary_key]
            return [f.name for f in fields if not {f.name, f.attname} & left_out]
        names = list(asked)
        if refused := NOT_SAVED & set(names):
            columns = ", ".join(sorted(refused))
            raise ValueError(f"update_fields: only the lifecycle writes {columns}")
        return names

    def _do_update(self, base_qs: Any, *args: Any, **kwargs: Any) -> Any:
        if not self.holds_claim():
            return super()._do_update(base_qs, *args, **kwargs)
        owned = base_qs.filter(owner=self.claim_owner)
        result = super()._do_update(owned, *args, **kwargs)
        if not result:
            raise ClaimLost(f"{self}: another owner has it by now; nothing was written")
        return result

    def expressions(self) -> list[str]:
        """The columns, but for the key, whose values the database is to work out."""
        values = self.__dict__.items()
        found = [
            n for n, one in values if type(one) not in PLAIN and hasattr(one, "resolve_expression")
        ]
        columns = [n for n in found if isinstance(getattr(type(self), n, None), DeferredAttribute)]
        return [n for n in columns if n != self._meta.pk.attname]

    def forget(self, names: Iterable[str]) -> None:
        """Let columns be read from the database when they are asked for."""
        for name in names:
            self.__dict__.pop(name, None)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name not in UNSHARED}

    def _table(self) -> Table:
        table = table_of(type(self), self._state.db or "default")
        return replace(table, policy=self.claim_policy) if self.claim_policy else table

    def _owner(self) -> str:
        if not self.holds_claim() or self.claim_owner is None:
            raise ClaimLost(f"{self}: this instance holds no claim")
        return self.claim_owner

    def _let_go(self) -> None:
        """The claim has ended: within a transaction, once that commits."""
        connection = self._table().connection
        if connection.in_atomic_block:
            self.ends_at_commit = True
            connection.on_commit(self._forget_claim)
        elif connection.get_autocommit():
            self._forget_claim()
        # Else nobody will tell of the commit; the row says whose it is.

    def _forget_claim(self) -> None:
        self.claim_owner = None

    def _ending_owner(self) -> str:
        if self.in_exactly_once_run:
            raise Undone(f"{self}: its transaction ends it: return, or raise Retry or Bury")
        return self._owner()

    def _end(self, written: Written) -> None:
        self._judge(written)
        self._let_go()

    def _judge(self, written: Written) -> None:
        if written.lost:
            raise ClaimLost(f"{self}: another owner has it by now; nothing was written")
        if written.gone:
            self._say_gone()

    def _say_gone(self) -> None:
        if not self._table().connection.get_autocommit():
            raise ClaimLost(f"{self}: its row is gone: let the transaction roll back")
        logger.info("%s was deleted while it was claimed; nothing to write", self)
