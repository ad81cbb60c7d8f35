"""The queue table of a beanstalkd server: its queues are the tubes."""

from types import MappingProxyType
from typing import Any, ClassVar

from django.core.exceptions import ValidationError
from django.db import models
from django.utils.translation import gettext_lazy

from ..exceptions import shown
from ..models import Job
from ..models.index import HotIndex
from ..states import Status
from .handlers import handler_of
from .protocol import JOB_SIZE_MAX

TTR_MAX = 2**32 - 1  # seconds


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
        verbose_name = gettext_lazy("tube job")
        indexes: ClassVar[Any] = [
            *Job.Meta.indexes,
            HotIndex(fields=["status", "queue", "retry_at"], where={"status": Status.DELAYED}),
            HotIndex(fields=["status", "queue", "burial"], where={"status": Status.BURIED}),
        ]

    def __str__(self) -> str:
        return f"tube job {self.pk}"  # as logs have it, whatever language is active

    checked_columns = MappingProxyType({"body": check_body, "ttr": check_ttr})

    class Policy:
        prune_after = 0  # a job that is done is deleted, as beanstalkd does

    def run(self) -> None:
        """Call the handler of its tube."""
        handler_of(self.queue)(self)
