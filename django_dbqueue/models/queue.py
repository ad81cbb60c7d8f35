from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from django.db import models
from django.utils.functional import Promise

from ..fields import DbNow, InstantField, NameField, check_seconds, check_words
from ..lifecycle.limiter import base_of
from ..lifecycle.policy import MAX_SECONDS

ALL = "*"  # as ``name`` all queues of a table, as ``job_table`` all tables of the database
MAX_REASON = 500
FOR_GOOD = datetime(9999, 12, 31, tzinfo=UTC)


def is_for_good(paused_until: datetime | None) -> bool:
    """Whether a pause lasts until somebody ends it; whatever the time zone."""
    return paused_until is not None and paused_until.year >= FOR_GOOD.year


class AnyQueue(set[str]):
    """The names that are known; every other one is in it, too, but sets compare those alone."""

    def __contains__(self, name: object) -> bool:
        return True


def is_among(paused: Collection[str], model: type[models.Model], queue: str) -> bool:
    """Whether a queue is paused, or the one that it is a lane of."""
    return queue in paused or base_of(model, queue) in paused


class QueueManager(models.Manager["Queue"]):
    """On each database by itself: ``Queue.objects.db_manager(alias)``."""

    def paused(self, job_table: str, *, force: bool = False) -> set[str]:
        """The names of a table's queues that are paused now, ``AnyQueue`` where all are.

        With ``force`` a pause of everything is not looked at."""
        found = self.pauses(job_table)
        if force:
            found = found.exclude(job_table=ALL)
        names = set(found.values_list("name", flat=True))
        return AnyQueue(names - {ALL}) if ALL in names else names

    def pauses(self, *job_tables: str) -> models.QuerySet["Queue"]:
        """Those that hold now for queues of these tables."""
        return self.filter(job_table__in=[*job_tables, ALL], paused_until__gt=DbNow())

    def pause_everything(self, seconds: float | None = None, reason: str = "") -> None:
        """Stop all claims on this database but those of workers with ``--force``, for some seconds
        or until ``resume_everything``; running jobs go on."""
        self.pause(ALL, ALL, seconds, reason)

    def resume_everything(self) -> None:
        """What is paused by itself stays so."""
        self.resume(ALL, ALL)

    def pause(self, job_table: str, name: str, seconds: float | None, reason: str) -> None:
        """Stop claims from a queue, or from ``ALL``, for a while or until it is resumed."""
        if seconds is not None:
            seconds = check_seconds(seconds, "seconds", MAX_SECONDS)
        reason = str(reason) if isinstance(reason, Promise) else reason
        check_words(reason, "reason", MAX_REASON)
        until: Any = FOR_GOOD if seconds is None else DbNow(plus=seconds)
        begun: Any = {"paused_at": DbNow(), "resumed_at": None}
        if self._is_paused(job_table, name):  # it goes on, for another time
            begun = {}
        self._write(job_table, name, paused_until=until, pause_reason=reason, **begun)

    def resume(self, job_table: str, name: str) -> None:
        ended: Any = {"resumed_at": DbNow()} if self._is_paused(job_table, name) else {}
        self._write(job_table, name, paused_until=None, pause_reason="", **ended)

    def _write(self, job_table: str, name: str, **values: Any) -> None:
        queue, _ = self.get_or_create(job_table=job_table, name=name)
        self.filter(pk=queue.pk).update(**values)

    def _is_paused(self, job_table: str, name: str) -> bool:
        paused = self.filter(job_table=job_table, name=name, paused_until__gt=DbNow())
        return paused.exists()


class Queue(models.Model):
    """What people want of one queue of one queue table; made when first needed."""

    job_table = models.CharField(max_length=200)
    name = NameField()
    paused_until = InstantField(null=True, blank=True)
    pause_reason = models.CharField(max_length=500, blank=True)
    paused_at = InstantField(null=True, blank=True, help_text="When the last pause began.")
    resumed_at = InstantField(null=True, blank=True, help_text="When somebody ended it.")

    objects = QueueManager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job_table", "name"], name="dbqueue_queue_of_table")
        ]
        default_permissions = ("view", "pause")

    @property
    def scope(self) -> str:
        """What is paused, in words."""
        if self.job_table == ALL:
            return "everything"
        return "its whole table" if self.name == ALL else "its queue"

    def __str__(self) -> str:
        return f"{self.job_table}:{self.name}"
