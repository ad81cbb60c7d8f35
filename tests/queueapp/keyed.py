"""Queue tables whose jobs share concurrency keys."""

import time

from django.db import models

from django_dbqueue.backoff import Fixed
from django_dbqueue.exceptions import Bury
from django_dbqueue.models import ArchivedJob, KeyColumns, KeyedJob

from .faults import record


class TenantColumns(models.Model):
    tenant = models.CharField(max_length=50, blank=True)
    seconds = models.FloatField(default=0)
    failures = models.IntegerField(default=0)
    log = models.CharField(max_length=500, blank=True)

    class Meta:
        abstract = True


class TenantJob(TenantColumns, KeyedJob):
    """Runs for ``seconds``; its first ``failures`` runs fail, or it is buried where that is < 0."""

    class Meta(KeyedJob.Meta):
        abstract = True

    class Policy:
        time_to_run = 60
        max_attempts = 5
        backoff = Fixed(0.2)
        concurrency_key = "{tenant}"
        finish = "each"

    def run(self) -> None:
        if self.log:
            record(self.log, f"begin {self.tenant} {self.pk} {time.monotonic():.6f}")
        time.sleep(self.seconds)
        if self.log:
            record(self.log, f"end {self.tenant} {self.pk} {time.monotonic():.6f}")
        if self.failures < 0:
            raise Bury("nobody can do this")
        if self.attempts <= self.failures:
            raise RuntimeError(f"attempt {self.attempts} fails")


class ArchivedShared(ArchivedJob, TenantColumns, KeyColumns):
    class Meta(ArchivedJob.Meta):
        pass


class Shared(TenantJob):
    """Two of a tenant at a time."""

    class Meta(KeyedJob.Meta):
        pass

    class Policy:
        concurrency_limit = 2
        archive = "queueapp.ArchivedShared"


class Ordered(TenantJob):
    """One of a tenant at a time, in order."""

    class Meta(KeyedJob.Meta):
        pass

    class Policy:
        key_order = "fifo"
