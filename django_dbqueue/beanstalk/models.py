"""The queue table of a beanstalkd server: its queues are the tubes."""

import time
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from django.core.exceptions import ValidationError
from django.db import models
from django.utils.translation import gettext_lazy

from ..exceptions import shown
from ..lifecycle.policy import MAX_SECONDS
from ..models import Job
from ..models.enqueued import Enqueued
from ..models.index import HotIndex
from ..models.queryset import JobManager, JobQuerySet
from ..states import Status
from .handlers import handler_of
from .protocol import JOB_SIZE_MAX

TTR, TTR_MAX = 300, 2**32 - 1  # seconds


def check_body(value: object) -> None:
    """``ValidationError`` says what is wanted, and what was given."""
    if not isinstance(value, bytes | bytearray | memoryview):
        how = ": encode it" if isinstance(value, str) else ""
        given = f"{type(value).__name__} {shown(value)}"
        raise ValidationError({"body": f"body must be bytes, not {given}{how}"})
    size = memoryview(value).nbytes
    if size > JOB_SIZE_MAX:
        raise ValidationError({"body": f"body has {size} bytes; the limit is {JOB_SIZE_MAX}"})


def check_ttr(value: object) -> None:
    """``ValidationError`` of what no client could have given."""
    if not isinstance(value, int) or not 1 <= value <= TTR_MAX:
        limits = f"a whole number of seconds between 1 and {TTR_MAX}"
        raise ValidationError({"ttr": f"ttr must be {limits}, not {shown(value)}"})


def time_to_run(ttr: Any) -> int | None:
    """Of a job with this ttr; None where it is none, which is refused by its own name."""
    try:
        check_ttr(ttr)
    except ValidationError:
        return None
    return min(int(ttr), MAX_SECONDS)


def _timed(columns: Mapping[str, Any], ttr: int | None = None) -> dict[str, Any]:
    """With the time that their ttr is; ``ttr``: of those that name none, else nothing is said."""
    named = dict(columns)
    if named.get("time_to_run") is None:
        named.pop("time_to_run", None)
        if "ttr" in named or ttr is not None:
            named["time_to_run"] = time_to_run(named.get("ttr", ttr))
    return named


class TubeJobQuerySet(JobQuerySet["TubeJob"]):
    """Gives jobs their ttr as their time to run, unless they have one."""

    def bulk_create(  # type: ignore[override]
        self, objs: Iterable["TubeJob"], batch_size: int | None = None, **kwargs: Any
    ) -> list["TubeJob"]:
        jobs = list(objs)
        for job in jobs:
            job.give_time()
        return super().bulk_create(jobs, batch_size, **kwargs)

    bulk_create.alters_data = True  # type: ignore[attr-defined]


class TubeJobManager(JobManager.from_queryset(TubeJobQuerySet)):  # type: ignore[misc]
    def enqueue(self, **columns: Any) -> Enqueued[Any]:
        return super().enqueue(**_timed(columns))  # type: ignore[no-any-return]

    def enqueue_many(
        self, rows: Iterable[Mapping[str, Any]], *, delay: float | None = 0, **columns: Any
    ) -> int:
        whole = [
            _timed({**columns, **row}, TTR) if isinstance(row, Mapping) else row for row in rows
        ]
        return int(super().enqueue_many(whole, delay=delay))

    enqueue_many.alters_data = True  # type: ignore[attr-defined]

    def _job_of(self, **columns: Any) -> Any:
        job = super()._job_of(**columns)
        job.give_time()
        return job


class TubeJob(Job):
    """A job that any program may put and reserve, in any language; its body is bytes."""

    body = models.BinaryField(default=b"", editable=True)
    # As its producer, or who released it, gave them: seconds.
    delay = models.BigIntegerField(default=0, editable=False)
    ttr = models.BigIntegerField(default=TTR, editable=False)
    reserves = models.PositiveIntegerField(default=0, editable=False)
    timeouts = models.PositiveIntegerField(default=0, editable=False)
    releases = models.PositiveIntegerField(default=0, editable=False)
    buries = models.PositiveIntegerField(default=0, editable=False)
    kicks = models.PositiveIntegerField(default=0, editable=False)
    # Grows with every burial, as far as clocks agree: they are kicked in this order.
    burial = models.BigIntegerField(default=0, editable=False)

    objects: ClassVar[TubeJobManager] = TubeJobManager()

    class Meta(Job.Meta):
        verbose_name = gettext_lazy("tube job")
        indexes: ClassVar[Any] = [
            *Job.Meta.indexes,
            HotIndex(fields=["status", "queue", "retry_at"], where={"status": Status.DELAYED}),
            HotIndex(fields=["status", "queue", "burial"], where={"status": Status.BURIED}),
        ]

    def __str__(self) -> str:
        return f"tube job {self.pk}"  # as logs have it, whatever language is active

    checked_columns = MappingProxyType({"body": check_body, "ttr": check_ttr})
    burial_columns = MappingProxyType({"burial": time.time_ns})

    class Policy:
        prune_after = 0  # a job that is done is deleted, as beanstalkd does

    def give_time(self) -> None:
        """A worker lets it run for its ttr, unless it has a time to run of its own."""
        if self.time_to_run is None:
            self.time_to_run = time_to_run(self.ttr)

    def save(self, *args: Any, **kwargs: Any) -> None:
        if self._state.adding:
            self.give_time()
        super().save(*args, **kwargs)

    def run(self) -> None:
        """Call the handler of its tube."""
        handler_of(self.queue)(self)
