"""A queue table whose rows may be beyond reading."""

from django.db import models

from django_dbqueue.backoff import Fixed
from django_dbqueue.models import Job


class SealedField(models.TextField):  # type: ignore[type-arg]
    """Text under a key; that of texts that begin with "!" is gone."""

    def from_db_value(self, value: str, expression: object, connection: object) -> str:
        if value.startswith("!"):
            raise LookupError(f"no key for {value}")
        return value


class Sealed(Job):
    """Nothing to do, much to read."""

    text = SealedField(blank=True)
    plain = models.TextField(blank=True)
    data = models.JSONField(default=dict)
    day = models.DateField(null=True)
    hour = models.TimeField(null=True)

    class Meta(Job.Meta):
        pass

    class Policy:
        max_attempts = 3
        backoff = Fixed(0.2)

    def run(self) -> None:
        pass


class SealedBatch(Job):
    """The same, many at once."""

    text = SealedField(blank=True)

    class Meta(Job.Meta):
        pass

    @classmethod
    def run_batch(cls, jobs: list["SealedBatch"]) -> None:
        pass
