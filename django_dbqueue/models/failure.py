"""What failed, kind by kind, five minutes by five minutes: a bounded number of rows."""

from django.db import models

from ..fields import NameField
from ..lifecycle.failures import FINGERPRINT_CHARS, PART_CHARS

MINUTES = 5  # of one count
KINDS_MAX = 200  # of a queue table, that are told apart
COUNTS_MAX = 100  # of a queue table in five minutes, of any queue and kind
OTHER = "(other)"  # the fingerprint, and the queue, of all that found no room
FORGOTTEN = 24 * 60  # minutes after which a kind makes room for a new one


class FailureKind(models.Model):
    """What a fingerprint stands for, and the minutes in which the first and the last of them were
    counted."""

    job_table = models.CharField(max_length=200)
    fingerprint = models.CharField(max_length=FINGERPRINT_CHARS)
    exception = models.CharField(max_length=PART_CHARS)
    place = models.CharField(max_length=PART_CHARS, blank=True)
    words = models.CharField(max_length=PART_CHARS, blank=True)
    first_seen = models.BigIntegerField()
    last_seen = models.BigIntegerField(db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["job_table", "fingerprint"], name="dbqueue_kind_of_failure"
            )
        ]
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.job_table}: {self.exception}: {self.words}"


class FailureCount(models.Model):
    """How many attempts of a queue failed in one way in five minutes, which begin with ``minute``;
    written with ``Minute.failed``, of which these are the parts."""

    job_table = models.CharField(max_length=200)
    queue = NameField()
    fingerprint = models.CharField(max_length=FINGERPRINT_CHARS)
    minute = models.BigIntegerField(db_index=True)
    failed = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["job_table", "minute", "queue", "fingerprint"],
                name="dbqueue_failures_counted",
            )
        ]
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.job_table}:{self.queue} {self.fingerprint} {self.minute}"
