"""The vocabulary of queue tables; the verbs hand on to the lifecycle."""

import os
import uuid
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from itertools import count
from typing import Any, Self

from django.core.exceptions import ValidationError
from django.db import models, router

from ..fields import DbNow, check_name, check_words
from ..lifecycle import admission, bulk, claim, enqueue, ready_queues
from ..lifecycle.bulk_jobs import insert_jobs, prepare_jobs, unread
from ..lifecycle.execute import retry
from ..lifecycle.keys import gives_key, no_empty_key, status_with_another_key
from ..lifecycle.limiter import has_lanes
from ..lifecycle.side_rows import keyed, written_with
from ..lifecycle.table import LIFECYCLE_COLUMNS, table_of
from ..lifecycle.twins import renewal
from ..shards import only_database
from ..states import Status
from .by_hand import ByHandQuerySet, JobT
from .enqueued import Enqueued, enqueue_unique
from .queue import Queue, is_among

_process = uuid.uuid4().hex
_claims = count(1)


def _become_another_process() -> None:
    global _process  # noqa: PLW0603
    _process = uuid.uuid4().hex


os.register_at_fork(after_in_child=_become_another_process)
MAX_OWNER = 64


def new_owner() -> str:
    """The owner of one claim by code that is no worker: judged by its time to run alone."""
    return f"{_process}.{next(_claims)}"


class JobQuerySet(ByHandQuerySet[JobT]):
    """A QuerySet that knows the states and refuses to write lifecycle columns."""

    def ready(self) -> Self:
        return self.filter(status=Status.READY)

    def claimed(self) -> Self:
        return self.filter(status=Status.CLAIMED)

    def done(self) -> Self:
        return self.filter(status=Status.DONE)

    def delayed(self) -> Self:
        return self.filter(status=Status.DELAYED)

    def buried(self) -> Self:
        return self.filter(status=Status.BURIED)

    def overdue(self) -> Self:
        """Claimed jobs whose claim has ended."""
        return self.claimed().filter(retry_at__lte=DbNow())

    def expired(self) -> Self:
        """Jobs that finished without a run, since they were found past ``expires_at``."""
        return self.done().filter(dequeued_time=None, expires_at__isnull=False)

    def in_queue(self, queue: str) -> Self:
        return self.filter(queue=queue)

    def update(self, **kwargs: Any) -> int:
        _refuse(kwargs)
        if "concurrency_key" in kwargs and getattr(self.model, "takes_keys", False):
            kwargs["concurrency_key"] = no_empty_key(kwargs["concurrency_key"])
            kwargs["status"] = status_with_another_key()
        return super().update(**kwargs)

    update.alters_data = True  # type: ignore[attr-defined]

    def bulk_update(
        self, objs: Iterable[JobT], fields: Iterable[str], batch_size: int | None = None
    ) -> int:
        _refuse(fields := list(fields))
        return super().bulk_update(objs, fields, batch_size)

    bulk_update.alters_data = True  # type: ignore[attr-defined]

    def create(self, **columns: Any) -> JobT:
        """Enqueue a job. Routers are shown it: its columns may say on which database it belongs."""
        if self._db or self._hints or not router.routers:  # type: ignore[attr-defined]
            return super().create(**columns)
        job = self.model(**columns)
        job.save(force_insert=True)
        return job

    create.alters_data = True  # type: ignore[attr-defined]

    def bulk_create(  # type: ignore[override]
        self, objs: Iterable[JobT], batch_size: int | None = None, **kwargs: Any
    ) -> list[JobT]:
        """Enqueue jobs with the caller's transaction, by multi-row INSERTs."""
        _refuse(kwargs.get("update_fields") or ())
        jobs = list(objs)
        table = table_of(self.model, self._db or only_database(self.model))  # type: ignore[attr-defined]
        prepare_jobs(table, jobs)
        unknown = unread(jobs)
        by_django = partial(super().bulk_create, jobs, batch_size, **kwargs)

        def insert() -> list[JobT]:
            is_plain = not any(kwargs.values())
            return jobs if is_plain and insert_jobs(table, jobs, batch_size) else by_django()

        write = partial(written_with, table, insert, keyed)

        with enqueue.announced(self.model, jobs):
            places = partial(map, admission.place_of, jobs)
            created = admission.admit(table, places, partial(retry, table.connection, write))
        for name, attributes in unknown:
            for one in attributes:
                one.pop(name, None)
        enqueue.notify_workers(table.connection, {job.status for job in jobs})  # type: ignore[attr-defined]
        return created

    bulk_create.alters_data = True  # type: ignore[attr-defined]

    def enqueue(self, **columns: Any) -> Enqueued[Any]:
        """``JobManager.enqueue`` on the database of ``using()``."""
        return self._whole("enqueue").enqueue(**columns)  # type: ignore[no-any-return]

    def enqueue_many(self, rows: Iterable[Mapping[str, Any]], **columns: Any) -> int:
        """``JobManager.enqueue_many`` on the database of ``using()``."""
        return int(self._whole("enqueue_many").enqueue_many(rows, **columns))

    def claim(
        self, limit: int = 1, queue: ready_queues.Queues = "default", owner: str | None = None
    ) -> list[Any]:
        """``JobManager.claim`` on the database of ``using()``; no filter can be heeded."""
        return list(self._whole("claim").claim(limit, queue, owner))

    def pause(self, queue: str = "default", seconds: float | None = None, reason: str = "") -> None:
        """``JobManager.pause`` on the database of ``using()``."""
        self._whole("pause").pause(queue, seconds, reason)

    def resume(self, queue: str = "default") -> None:
        """``JobManager.resume`` on the database of ``using()``."""
        self._whole("resume").resume(queue)

    def paused_queues(self) -> set[str]:
        return self._whole("paused_queues").paused_queues()  # type: ignore[no-any-return]

    def _whole(self, verb: str) -> Any:
        """The manager, on our database; for what cannot be said of a part of the table."""
        query = self.query
        if query.where or query.is_sliced or query.distinct or query.combinator:
            raise TypeError(f"{verb}() speaks of the whole table: call it on no filtered queryset")
        return self.model._default_manager.db_manager(self._db)  # type: ignore[attr-defined]


class JobManager(models.Manager.from_queryset(JobQuerySet)):  # type: ignore[misc]
    """The manager of a queue table."""

    def enqueue(
        self,
        *,
        delay: float | None = 0,
        dedup_key: str | None = None,
        on_duplicate: str = "keep",
        debounce: float | None = None,
        max_wait: float | None = None,
        **columns: Any,
    ) -> Enqueued[Any]:
        """Insert a job with the caller's transaction; (job, created), and its ``outcome``.

        ``delay`` is in seconds by the database's clock. While a job with the same ``dedup_key``
        waits in the queue (or, by policy, until it is done) no second one is made: that one comes
        back, with False. While it is ready or delayed, ``on_duplicate="replace"`` writes the
        columns of this call, and a delay, into it, and ``debounce`` makes it due so many seconds
        from now, but no later than ``max_wait`` seconds after it was made.
        ``ValidationError`` names a field that is out of its limits.
        """
        change = renewal(
            self.model.never_replaced, dedup_key, columns, delay, on_duplicate, debounce, max_wait
        )
        if due := enqueue.due_in(debounce or delay):
            if columns.get("retry_at") is not None:
                raise ValidationError({"delay": "give delay or retry_at, not both"})
            columns["retry_at"] = due
        job = self._job_of(dedup_key=dedup_key, **columns)
        if dedup_key is None:
            job.save(using=self._db, force_insert=True)
            return Enqueued(job, created=True)
        table = table_of(self.model, self._db or router.db_for_write(self.model, instance=job))
        # Also those that a manager of the project's hides: the key is that of all rows.
        jobs = self.model._base_manager.using(table.connection.alias)
        return enqueue_unique(table, job, jobs, change)

    def _job_of(self, **columns: Any) -> Any:
        """The job that ``enqueue`` inserts, or whose columns go into the one that waits."""
        return self.model(**columns)

    def enqueue_many(
        self, rows: Iterable[Mapping[str, Any]], *, delay: float | None = 0, **columns: Any
    ) -> int:
        """Insert many jobs with the caller's transaction, all or none; how many.

        Each row is a dict of columns, all rows with the same ones; ``columns`` are the same for
        every job. No instances are made, which takes a fraction of ``bulk_create()``'s time: there
        are no keys to be had, no ``save()`` and no signals. A ``dedup_key`` that is taken is an
        ``IntegrityError``. ``delay`` and ``ValidationError`` are those of ``enqueue``.
        """
        given, due = list(rows), enqueue.due_in(delay)
        bulk.check_rows(given)
        whole = [{**columns, **row} for row in given] if columns else given
        if not whole:
            return 0
        if due and "retry_at" in whole[0]:
            raise ValidationError({"delay": "give delay or retry_at, not both"})
        bulk.check_columns(self.model, whole)
        table = table_of(self.model, self._db or only_database(self.model))
        needs_jobs = gives_key(self.model) or has_lanes(self.model)
        if table.is_plain and bulk.may_insert(table, whole) and not needs_jobs:
            bulk.insert_many(table, whole, delay or 0)
        else:
            dates = {"retry_at": due} if due else {}
            self.bulk_create([self.model(**row, **dates) for row in whole])
        return len(whole)

    enqueue_many.alters_data = True  # type: ignore[attr-defined]

    def claim(
        self, limit: int = 1, queue: ready_queues.Queues = "default", owner: str | None = None
    ) -> list[Any]:
        """Claim up to ``limit`` ready jobs for one's own loop; ``job.complete()`` ends each.

        Of one queue alone, "default" unless another is named; of several in the order in which
        they are named; with ``None`` of all, in any order.
        The claim ends by itself when the job's time to run is over: then it may run twice, and
        the late ``complete()`` raises ``ClaimLost``. Nothing is claimed from a paused queue.
        Jobs past ``expires_at`` come back as well, with ``has_expired``, and are not to be run.
        Raises ``TransactionManagementError`` inside ``atomic()``.
        """
        if owner is not None:
            check_words(owner, "owner", MAX_OWNER)
        table = table_of(self.model, self._for_writing())
        names, paused = ready_queues.named(table, queue), self.paused_queues()
        unpaused = [name for name in names if not is_among(paused, self.model, name)]
        return claim.claim_from(table, unpaused, limit, lambda: owner or new_owner())

    def pause(self, queue: str = "default", seconds: float | None = None, reason: str = "") -> None:
        """Stop claims from a queue for some seconds, or until ``resume``; running jobs go on.

        ``"*"`` means all queues of the table, and another word ends that: ``resume("*")``.
        """
        check_name(queue, "queue")
        self._control().pause(self.model._meta.db_table, queue, seconds, reason)

    def resume(self, queue: str = "default") -> None:
        check_name(queue, "queue")
        self._control().resume(self.model._meta.db_table, queue)

    def paused_queues(self) -> set[str]:
        """Their names; any name is in it where the whole table is paused."""
        paused: set[str] = self._control().paused(self.model._meta.db_table)
        return paused

    def _control(self) -> Any:
        return Queue.objects.db_manager(self._for_writing())

    def _for_writing(self) -> str:
        return self._db or router.db_for_write(self.model)


def _refuse(names: Collection[str]) -> None:
    if refused := LIFECYCLE_COLUMNS & set(names):
        raise ValueError(
            f"{', '.join(sorted(refused))}: only the lifecycle's verbs write these columns "
            f"(bury, kick, reschedule, release, cancel, or a claim's complete, fail, ...)"
        )
