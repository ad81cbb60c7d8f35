"""The no-op job of django-dbqueue."""

from django.db import models

from benchmarks import marks
from django_dbqueue.models import Job


class Noop(Job):
    number = models.IntegerField()

    class Meta(Job.Meta):
        pass

    def run(self) -> None:
        marks.mark(self.number)


class Plain(models.Model):
    """A model that is no queue."""

    number = models.IntegerField()

    def __str__(self) -> str:
        return str(self.number)
