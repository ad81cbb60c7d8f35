from django.db import models

from ..fields import DbNow, InstantField


class Worker(models.Model):
    """One supervisor, on one database; it lives while ``beat_at`` goes on.

    Deleted when it stops, or once it is gone and its claims are reaped.
    """

    uuid = models.CharField(primary_key=True, max_length=32, editable=False)
    host = models.CharField(max_length=255)
    pid = models.PositiveBigIntegerField()
    started_at = InstantField(db_default=DbNow(), editable=False)
    beat_at = InstantField(db_default=DbNow(), db_index=True, editable=False)
    running = models.JSONField(default=dict, help_text="What its children run.")
    memory = models.PositiveBigIntegerField(default=0, help_text="Resident bytes, children too.")
    stop_requested_at = InstantField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.host} {self.pid} ({self.uuid[:8]})"
