"""What has happened in the queues, added up over all processes and restarts: what counters show."""

from django.db import models

from ..fields import NameField
from .minute import RAN, SUMS, WAITED

UNCHANGED_KEPT = 30 * 24 * 60  # minutes
COUNTED = (*SUMS, "expired", "reaped", "lost", "retried")
SECONDS = ("waited_seconds", "ran_seconds")
OTHERS = "(other)"  # the queue in which all are counted for which a table has no row left
ALL = "(all)"  # the queue of what is counted of a database


MARK_CHARS, MARKS_CHARS = 8, 8 * 128


class Total(models.Model):
    """One queue since it was first counted; at most the last seconds of a worker that was killed
    are missing.

    A table has up to 100 rows; what happens in further queues is added to that of ``OTHERS``. A row
    that does not change for 30 days is deleted. ``waited_n`` and ``ran_n`` are those of ``Minute``,
    and ``changed`` is a minute as there. ``retried`` counts statements of a whole database: in the
    row that names no table, and ``ALL`` as its queue. ``written`` are the marks of the last 128
    batches that were added, the newest first, for one who lost the answer to its commit.
    """

    job_table = models.CharField(max_length=200, blank=True)
    queue = NameField()
    changed = models.BigIntegerField(default=0)
    written = models.CharField(max_length=MARKS_CHARS, blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job_table", "queue"], name="dbqueue_total_of_queue")
        ]
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.job_table}:{self.queue}"


for name in (*COUNTED, *WAITED, *RAN):
    Total.add_to_class(name, models.PositiveBigIntegerField(default=0))
for name in SECONDS:
    Total.add_to_class(name, models.FloatField(default=0))
