"""Queue tables that the state machine plays with: one for each fate of a finished job."""

from django.db import models

from django_dbqueue.backoff import Listed
from django_dbqueue.models import ArchivedJob, Job


class Staged(Job):
    text = models.TextField(blank=True)

    class Meta(Job.Meta):
        abstract = True

    class Policy:
        time_to_run = 30
        max_attempts = 3
        backoff = Listed((1, 4))

    def run(self) -> None:
        pass


class StagedPruned(Staged):
    class Meta(Staged.Meta):
        pass

    class Policy:
        prune_after = 100


class StagedArchived(Staged):
    class Meta(Staged.Meta):
        pass

    class Policy:
        dedup_until = "done"
        archive = "queueapp.ArchivedStaged"
        archive_after = 100
        prune_after = 200


class StagedFleeting(Staged):
    class Meta(Staged.Meta):
        pass

    class Policy:
        prune_after = 0


class ArchivedStaged(ArchivedJob):
    text = models.TextField(blank=True)

    class Meta(ArchivedJob.Meta):
        pass
