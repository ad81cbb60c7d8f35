"""The archive of a queue table."""

from django.db import models

from ..states import Status
from .columns import JobColumns

PERMISSIONS_OF_ARCHIVE = ("view", "inspect", "export")
UNENDED = {Status.READY, Status.CLAIMED, Status.DELAYED}


class ArchivedJob(JobColumns):
    """The archive of a queue table: the same columns, moved there as they are."""

    id = models.BigIntegerField(primary_key=True)

    class Meta:
        abstract = True
        indexes = [models.Index(fields=["finished_at"])]
        default_permissions = PERMISSIONS_OF_ARCHIVE

    @property
    def state(self) -> str:
        """The state in which the job ended; cancelled, where it was taken out before its end."""
        return "cancelled" if self.status in UNENDED else super().state
