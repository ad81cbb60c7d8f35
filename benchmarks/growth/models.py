"""Jobs whose finished rows move to an archive, and are deleted there."""

import os

from django.db import models

from benchmarks import marks
from benchmarks.growth import ARCHIVE_VARIABLE, PRUNE_VARIABLE
from django_dbqueue.models import ArchivedJob, Job

DAY = 86_400  # seconds


class Growing(Job):
    number = models.IntegerField()

    class Meta(Job.Meta):
        abstract = True

    class Policy:
        archive_after = float(os.environ.get(ARCHIVE_VARIABLE) or DAY)
        prune_after = float(os.environ.get(PRUNE_VARIABLE) or 0) or None

    def run(self) -> None:
        marks.mark(self.number)


class ArchivedGrowing(ArchivedJob):
    number = models.IntegerField()

    class Meta(ArchivedJob.Meta):
        abstract = True


class Lean(Growing):
    """Its table holds nothing but the jobs that are measured."""

    class Meta(Growing.Meta):
        pass

    class Policy:
        archive = "growth.ArchivedLean"


class ArchivedLean(ArchivedGrowing):
    pass


class Full(Growing):
    """Its table, and its archive, hold millions of other rows."""

    class Meta(Growing.Meta):
        pass

    class Policy:
        archive = "growth.ArchivedFull"


class ArchivedFull(ArchivedGrowing):
    pass
