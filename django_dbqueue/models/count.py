"""How many jobs the queues hold, as somebody has counted them in the background."""

from django.db import models

from ..fields import InstantField, NameField

QUEUES_MAX = 1_000  # of a queue table and a state, that are told apart


class QueueCount(models.Model):
    """The jobs of one queue in one state, as of ``TableCount.counted_at``; no row = none.

    Where more than 1,000 queues of a table have jobs in a state, those with fewest are added up in
    the queue ``OTHERS`` of ``Total``.
    """

    job_table = models.CharField(max_length=200)
    queue = NameField()
    status = models.PositiveSmallIntegerField()
    jobs = models.PositiveBigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["job_table", "status", "queue"], name="dbqueue_count_of_queue"
            )
        ]
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.job_table}:{self.queue} {self.status} {self.jobs}"


class TableCount(models.Model):
    """When the jobs of a queue table were counted, and who is at it.

    ``part``: which states are counted together. ``version`` grows when somebody begins to count,
    and when he is done: who finds another than his own has been taken for dead. ``touched_at`` says
    when he last wrote. ``seconds`` is what the statements of the last count took, and ``largest``
    how many jobs it found in one state at the most.
    """

    job_table = models.CharField(max_length=200)
    part = models.CharField(max_length=8)
    version = models.BigIntegerField(default=0)
    is_counting = models.BooleanField(default=False)
    began_at = InstantField(null=True)
    touched_at = InstantField(null=True)
    counted_at = InstantField(null=True)
    seconds = models.FloatField(default=0)
    largest = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job_table", "part"], name="dbqueue_count_of_table")
        ]
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.job_table}: {self.part}"
