from django.db import models

from ..fields import InstantField, NameField
from ..lifecycle.room import ROOMS


class QueueRoom(models.Model):
    """Room that was handed out to those who enqueue into a bounded queue: one row for each stripe,
    so that several can enqueue at once; made when first needed."""

    job_table = models.CharField(max_length=200)
    queue = NameField()
    stripe = models.PositiveSmallIntegerField()
    room = models.BigIntegerField(default=0, help_text="Jobs that may still be enqueued.")
    max_length = models.BigIntegerField(default=0, help_text="For which it was handed out.")
    counted_at = InstantField(help_text="When the queue's jobs were counted.")

    class Meta:
        db_table = ROOMS
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["job_table", "queue", "stripe"], name="dbqueue_room_stripe"
            )
        ]

    def __str__(self) -> str:
        return f"{self.job_table}:{self.queue}:{self.stripe}"
