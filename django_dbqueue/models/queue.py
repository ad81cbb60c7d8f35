from datetime import UTC, datetime
from typing import Any

from django.db import models

from ..fields import DbNow, InstantField, NameField

FOR_GOOD = datetime(9999, 12, 31, tzinfo=UTC)


def is_for_good(paused_until: datetime | None) -> bool:
    """Whether a pause lasts until somebody ends it; whatever the time zone."""
    return paused_until is not None and paused_until.year >= FOR_GOOD.year


class QueueManager(models.Manager["Queue"]):
    def paused(self, job_table: str) -> set[str]:
        """The names of a table's queues that are paused now."""
        found = self.filter(job_table=job_table, paused_until__gt=DbNow())
        return set(found.values_list("name", flat=True))

    def pause(self, job_table: str, name: str, seconds: float | None, reason: str) -> None:
        """Stop claims from a queue, for a while or until it is resumed."""
        until: Any = FOR_GOOD if seconds is None else DbNow(plus=seconds)
        self._write(job_table, name, paused_until=until, pause_reason=reason)

    def resume(self, job_table: str, name: str) -> None:
        self._write(job_table, name, paused_until=None, pause_reason="")

    def _write(self, job_table: str, name: str, **values: Any) -> None:
        queue, _ = self.get_or_create(job_table=job_table, name=name)
        self.filter(pk=queue.pk).update(**values)


class Queue(models.Model):
    """What people want of one queue of one queue table; made when first needed."""

    job_table = models.CharField(max_length=200)
    name = NameField()
    paused_until = InstantField(null=True, blank=True)
    pause_reason = models.CharField(max_length=500, blank=True)

    objects = QueueManager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job_table", "name"], name="dbqueue_queue_of_table")
        ]
        default_permissions = ("view", "pause")

    def __str__(self) -> str:
        return f"{self.job_table}:{self.name}"
