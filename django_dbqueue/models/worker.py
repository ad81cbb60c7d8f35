from datetime import datetime

from django.db import models

from ..fields import DbNow, InstantField

SHOWN_MAX = 100  # jobs of a child in the row, those that have run for the longest
KEPT = 3600  # seconds that a stopped worker is shown
SILENT = "no beat for"  # with which the reason begins of one that did not stop by itself


class WorkerQuerySet(models.QuerySet["Worker"]):
    """Which workers live, by the database's clock; times in seconds."""

    def alive(self, worker_timeout: float) -> "WorkerQuerySet":
        return self.filter(stopped_at=None, beat_at__gte=DbNow(plus=-worker_timeout))

    def silent(self, worker_timeout: float) -> "WorkerQuerySet":
        """Neither beating nor signed off: taken for dead."""
        return self.filter(stopped_at=None, beat_at__lt=DbNow(plus=-worker_timeout))

    def beats(self) -> "dict[str, datetime | None]":
        """When each that has not signed off has beaten last, by uuid."""
        return dict(self.filter(stopped_at=None).values_list("uuid", "beat_at"))

    def long_gone(self) -> "WorkerQuerySet":
        return self.filter(stopped_at__lt=DbNow(plus=-KEPT))

    def sign_off(self, reason: str) -> int:
        """Stopped, for this reason; nothing is claimed by them any more."""
        return self.update(stopped_at=DbNow(), stop_reason=reason[:200], running={})

    def sign_off_silent(self, worker_timeout: float) -> int:
        return self.sign_off(f"{SILENT} {worker_timeout:g} s: taken for dead")


class Worker(models.Model):
    """One supervisor, or a reaper of its own, on one database; it lives while ``beat_at`` goes on.

    It is signed off when it stops, or once it is gone and its claims are reaped, and is deleted
    an hour later.
    """

    uuid = models.CharField(primary_key=True, max_length=32, editable=False)
    name = models.CharField(max_length=100, blank=True, help_text="As runworker --name says.")
    host = models.CharField(max_length=255)
    pid = models.PositiveBigIntegerField()
    code_version = models.PositiveBigIntegerField(default=0)
    serves = models.JSONField(default=list, help_text="Queue tables, or table:queue.")
    started_at = InstantField(db_default=DbNow(), editable=False)
    beat_at = InstantField(db_default=DbNow(), db_index=True, editable=False)
    running = models.JSONField(default=dict, help_text="What its children run.")
    memory = models.PositiveBigIntegerField(default=0, help_text="Resident bytes, children too.")
    jobs_per_minute = models.PositiveIntegerField(
        default=0, help_text="Started in the last minute."
    )
    trouble = models.CharField(max_length=200, blank=True, help_text="What it cannot do for now.")
    pool = models.JSONField(default=dict, help_text="How many processes, of which range, and why.")
    paused = models.BooleanField(default=False, help_text="It claims nothing for now.")
    drain_requested_at = InstantField(null=True, blank=True)
    stop_requested_at = InstantField(null=True, blank=True)
    restart_requested = models.BooleanField(
        default=False, help_text="Its stop is to be followed by a start: exit code 12."
    )
    stop_reason = models.CharField(max_length=200, blank=True)
    stopped_at = InstantField(null=True, blank=True, editable=False)

    objects = WorkerQuerySet.as_manager()

    class Meta:
        default_permissions = ("view", "stop")

    def __str__(self) -> str:
        name = f"{self.name} on " if self.name else ""
        return f"{name}{self.host} {self.pid} ({self.uuid[:8]})"

    def served_tables(self) -> set[str]:
        return {str(name).partition(":")[0] for name in self.serves}
