"""Queue tables of which old and new code are at work at the same time."""

import os

from django.db import models

from django_dbqueue.conf import code_version
from django_dbqueue.models import Job

from .faults import record

CODE = os.environ.get("QUEUEAPP_CODE", "old")


class Versioned(Job):
    """Says what code it needs."""

    min_version = models.PositiveBigIntegerField(default=0)
    log = models.CharField(max_length=500, blank=True)

    class Meta(Job.Meta):
        pass

    def run(self) -> None:
        if self.log:
            record(self.log, f"{self.pk} {code_version()}")


class Rolled(Job):
    """Has one column more in the new code."""

    text = models.CharField(max_length=50, blank=True)
    log = models.CharField(max_length=500)
    if CODE == "new":
        size = models.IntegerField(null=True)

    class Meta(Job.Meta):
        pass

    def run(self) -> None:
        self.text = f"run by {CODE} code"
        self.save()
        record(self.log, f"{self.pk} {CODE} {getattr(self, 'size', 'no size')}")
