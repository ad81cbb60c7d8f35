"""A queue table whose foreign keys outlive what they name."""

from typing import Any

from django.db import models

from django_dbqueue.backoff import Fixed
from django_dbqueue.models import Job


class Person(models.Model):
    code = models.CharField(max_length=20, unique=True)
    house = models.IntegerField(default=0)
    room = models.IntegerField(default=0)

    class Meta:
        unique_together = [("house", "room")]


class Friend(Person):
    """A child table: its key is its parent's."""


def loose(kind: Any, to: type[models.Model], **options: Any) -> Any:
    """A relation that the database does not watch."""
    return kind(to, models.DO_NOTHING, null=True, related_name="+", **options)


class Portrait(Job):
    """Reads the relations that ``wants`` names."""

    wants = models.CharField(max_length=20)
    sitter = loose(models.ForeignKey, Person, db_constraint=False)
    only = loose(models.OneToOneField, Person, db_constraint=False)
    by_code = loose(models.ForeignKey, Person, to_field="code", db_constraint=False)
    friend = loose(models.ForeignKey, Friend, db_constraint=False)
    house = models.IntegerField(null=True)
    room = models.IntegerField(null=True)
    placed = models.ForeignObject(
        Person,
        models.DO_NOTHING,
        from_fields=["house", "room"],
        to_fields=["house", "room"],
        null=True,
        related_name="+",
    )

    class Meta(Job.Meta):
        pass

    class Policy:
        max_attempts = 3
        backoff = Fixed(600)

    def run(self) -> None:
        if self.wants == "another":
            Person.objects.get(code="nobody")
        elif self.wants == "wrapped":
            try:
                self.sitter  # noqa: B018  # asks the database
            except Person.DoesNotExist as error:
                raise RuntimeError("no sitter") from error
        else:
            getattr(self, self.wants)


class Gallery(Job):
    """Runs portraits together."""

    sitter = loose(models.ForeignKey, Person, db_constraint=False)

    class Meta(Job.Meta):
        pass

    class Policy:
        backoff = Fixed(600)

    @classmethod
    def run_batch(cls, jobs: list["Gallery"]) -> None:
        for job in jobs:
            job.sitter  # noqa: B018  # asks the database
