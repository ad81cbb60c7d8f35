"""What happened in the queues, minute by minute: what charts are drawn from."""

from django.db import models

from ..fields import NameField

KEPT = 8 * 24 * 60  # minutes
# Of what is older, a row is a quarter of an hour: charts have no finer points there.
FINE = 25 * 60
QUARTER = 15
# The ends of the spans by which times are counted, in seconds; the last span has none.
SPANS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3600.0)
SUMS = ("completed", "failed", "buried")
WAITED = tuple(f"waited_{n}" for n in range(len(SPANS) + 1))
RAN = tuple(f"ran_{n}" for n in range(len(SPANS) + 1))


class Minute(models.Model):
    """One minute of one queue, added up by the workers; at most the last seconds of one that was
    killed are missing.

    ``minute``: minutes since 1970 UTC by the database's clock. ``waited_n`` and ``ran_n``: how
    many jobs waited for their first claim, and attempts ran, for up to ``SPANS[n]`` seconds.
    ``backlog``: the jobs that were neither done nor buried, as they were last counted in that
    minute; null where nobody counted. After a day the first minute of each
    quarter of an hour stands for all of it, with the largest of its backlogs.
    """

    job_table = models.CharField(max_length=200)
    queue = NameField()
    minute = models.BigIntegerField(db_index=True)
    completed = models.PositiveBigIntegerField(default=0)
    failed = models.PositiveBigIntegerField(default=0, help_text="Attempts.")
    buried = models.PositiveBigIntegerField(default=0)
    backlog = models.PositiveBigIntegerField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["job_table", "queue", "minute"], name="dbqueue_minute_of_queue"
            )
        ]
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.job_table}:{self.queue} {self.minute}"


for name in (*WAITED, *RAN):
    Minute.add_to_class(name, models.PositiveIntegerField(default=0))
