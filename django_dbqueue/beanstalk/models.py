"""The queue table of a beanstalkd server: its queues are the tubes."""

from typing import Any, ClassVar

from django.db import models

from ..models import Job
from ..models.index import HotIndex
from ..states import Status
from .handlers import handler_of


class TubeJob(Job):
    """A job that any program may put and reserve, in any language; its body is bytes."""

    body = models.BinaryField(default=b"", editable=True)
    # As its producer, or who released it, gave them: seconds.
    delay = models.BigIntegerField(default=0, editable=False)
    ttr = models.BigIntegerField(default=300, editable=False)
    reserves = models.PositiveIntegerField(default=0, editable=False)
    timeouts = models.PositiveIntegerField(default=0, editable=False)
    releases = models.PositiveIntegerField(default=0, editable=False)
    buries = models.PositiveIntegerField(default=0, editable=False)
    kicks = models.PositiveIntegerField(default=0, editable=False)
    # Grows with every burial: they are kicked in this order.
    burial = models.BigIntegerField(default=0, editable=False)

    class Meta(Job.Meta):
        verbose_name = "tube job"
        indexes: ClassVar[Any] = [
            *Job.Meta.indexes,
            HotIndex(fields=["status", "queue", "retry_at"], where={"status": Status.DELAYED}),
            HotIndex(fields=["status", "queue", "burial"], where={"status": Status.BURIED}),
        ]

    class Policy:
        prune_after = 0  # a job that is done is deleted, as beanstalkd does

    def run(self) -> None:
        """Call the handler of its tube."""
        handler_of(self.queue)(self)
