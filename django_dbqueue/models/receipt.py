from hashlib import sha256
from typing import Any

from django.db import models

from ..fields import DbNow, InstantField
from ..lifecycle.table import Table
from ..states import Status

KEPT = 86400  # seconds; a queue table that loses its last commits may redeliver what was done
CHUNK = 500


class ReceiptManager(models.Manager["Receipt"]):
    def of_table(self, table: Table) -> models.QuerySet["Receipt"]:
        """Those of its jobs, in the database that this manager asks."""
        return self.filter(job_table=_place(table))

    def prune(self, table: Table) -> int:
        """Delete up to 500 receipts of jobs that nobody will run again: done, or gone; how many."""
        old = self.of_table(table).filter(written_at__lt=DbNow(plus=-KEPT))
        found = dict(old.order_by("written_at").values_list("digest", "job_key")[:CHUNK])
        if not found:
            return 0
        jobs = table.model._base_manager.using(table.connection.alias).exclude(status=Status.DONE)
        keys = [table.model._meta.pk.to_python(key) for key in found.values()]
        needed = {str(key) for key in jobs.filter(pk__in=keys).values_list("pk", flat=True)}
        kept = sorted(digest for digest, key in found.items() if key in needed)
        # Else the same ones would be looked at for ever.
        self.filter(digest__in=kept).update(written_at=DbNow())
        self.filter(digest__in=sorted(found.keys() - set(kept))).delete()
        return len(found) - len(kept)


class Receipt(models.Model):
    """The effects of a job with ``exactly_once = "<alias>"`` are in this database: written in their
    transaction, since the job itself is in another database."""

    digest = models.CharField(primary_key=True, max_length=64, editable=False)
    job_table = models.CharField(max_length=200)
    job_key = models.TextField()
    written_at = InstantField(db_default=DbNow(), editable=False)

    objects = ReceiptManager()

    class Meta:
        indexes = [models.Index(fields=["job_table", "written_at"])]

    def __str__(self) -> str:
        return f"{self.job_table} {self.job_key}"


def receipt_of(table: Table, job: Any) -> Receipt:
    """The receipt of a job, not written yet.

    A key that is used again, after the queue table was emptied or restored, is another job: so
    the time at which it was enqueued is in it, too. It is hashed, since no collation takes two of
    these for one.
    """
    row = table.model._base_manager.using(table.connection.alias).filter(pk=job.pk)
    digest = digest_of(table, job.pk, row.values_list("created_at", flat=True).first())
    return Receipt(digest=digest, job_table=_place(table), job_key=str(job.pk))


def digest_of(table: Table, key: Any, created_at: Any) -> str:
    """By which a job's receipt is found."""
    made = InstantField().get_prep_value(created_at)
    name = f"{_place(table)}:{key}:{made and made.isoformat()}"
    return sha256(name.encode()).hexdigest()


def _place(table: Table) -> str:
    """The same queue table in another database has other jobs, of the same keys and times."""
    return f"{table.job_table}@{table.connection.alias}"
