"""What ``enqueue`` answers, and the insert of a job with a ``dedup_key``."""

from typing import Any, Generic, NamedTuple, Self, TypeVar

from django.db import IntegrityError, models, transaction

from ..lifecycle import enqueue, saving
from ..lifecycle.table import Table
from ..lifecycle.twins import Renewal, is_behind, renew, renew_with_key

JobT = TypeVar("JobT", bound=models.Model)
TRIES = 3


class _Pair(NamedTuple, Generic[JobT]):
    job: JobT | None
    created: bool


class Enqueued(_Pair[JobT]):
    """The job, and whether it is new; None where its twin is in sight of nobody any more.

    ``outcome``: "created"; or of the job that waited already "kept" as it was, "replaced", or
    "debounced", where only its time was moved on.
    """

    outcome: str

    def __new__(cls, job: JobT | None, created: bool, outcome: str = "") -> Self:
        self = tuple.__new__(cls, (job, created))
        self.outcome = outcome or ("created" if created else "kept")
        return self


def enqueue_unique(table: Table, job: Any, jobs: Any, change: Renewal) -> Enqueued[Any]:
    """Insert a new job unless one of the ``jobs`` of its queue has its key; then change that, as
    long as it waits."""
    if job._state.fields_cache:
        job._prepare_related_fields_for_save(operation_name="enqueue")
    enqueue.prepare(job)  # it may put it into a lane
    # Past the snapshot: a twin in there may have ended, and another one may wait by now.
    jobs = jobs.select_for_update() if is_behind(table) else jobs
    # In an order that says nothing: for that of the keys a database may walk along all rows.
    twins = jobs.filter(queue=job.queue, dedup_key=job.dedup_key).order_by("dedup_key")
    for _ in range(TRIES):
        if saving.insert_new(table, job):
            job.forget(job.expressions())
            return Enqueued(job, created=True)
        key = renew(table, job, change) if change else None
        if key is not None:
            # By its own key: who has claimed it since has taken the dedup key from it.
            return _renewed(jobs.filter(pk=key).first(), change)
        if twin := twins.first():
            return Enqueued(twin, created=False)
    return _insert_or_raise(table, job, twins, change)


def _renewed(job: Any, change: Renewal) -> Enqueued[Any]:
    outcome = "replaced" if change.columns or change.delay else "debounced"
    return Enqueued(job, created=False, outcome=outcome)


def _insert_or_raise(table: Table, job: Any, twins: Any, change: Renewal) -> Enqueued[Any]:
    """No twin is in sight: it is younger than our snapshot, or another constraint refuses."""
    try:
        with transaction.atomic(using=twins.db):
            job.save(using=twins.db, force_insert=True)
    except IntegrityError:
        with transaction.atomic(using=twins.db):
            held = twins.select_for_update()  # past the snapshot
            twin = held.first()
            if twin is None:
                raise
            if change and renew_with_key(table, job, change, table.db_key(twin.pk)):
                return _renewed(held.first(), change)
        return Enqueued(twin, created=False)
    return Enqueued(job, created=True)
