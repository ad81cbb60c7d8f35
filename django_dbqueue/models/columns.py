"""The columns that a queue table and its archive share."""

from typing import Any

from django.db import models
from django.utils.translation import gettext_lazy

from ..fields import DbNow, ErrorsField, InstantField, NameField
from ..lifecycle.errors import VERBS
from ..lifecycle.failures import FINGERPRINT_CHARS
from ..states import Status


class JobColumns(models.Model):
    """Of which the lifecycle alone writes those of ``LIFECYCLE_COLUMNS``."""

    queue = NameField(default="default")
    priority = models.BigIntegerField(default=1024, help_text=gettext_lazy("0 is the most urgent."))
    status = models.PositiveSmallIntegerField(
        choices=Status.choices, default=Status.READY, editable=False
    )
    owner = models.CharField(max_length=64, null=True, editable=False)
    dequeued_time = InstantField(null=True, editable=False)
    retry_at = InstantField(null=True, blank=True)
    attempts = models.PositiveIntegerField(default=0, editable=False)
    crashes = models.PositiveIntegerField(default=0, editable=False)
    losses = models.PositiveSmallIntegerField(default=0, editable=False)
    time_to_run = models.PositiveIntegerField(
        null=True, blank=True, help_text=gettext_lazy("Seconds.")
    )
    created_at = InstantField(db_default=DbNow(), editable=False)
    finished_at = InstantField(null=True, editable=False)
    expires_at = InstantField(null=True, blank=True)
    errors = ErrorsField(default=list, editable=False)
    # The kind of its newest failure, until it is done; and when it was buried, as ``finished_at``
    # says, too: an index over these never changes with a job that does well.
    failure = models.CharField(max_length=FINGERPRINT_CHARS, null=True, editable=False)
    failed_at = InstantField(null=True, editable=False)
    dedup_key = NameField(null=True, blank=True)

    class Meta:
        abstract = True

    def refresh_from_db(
        self, using: str | None = None, fields: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        """Where its row is, also if routers read from a replica, which may not have it yet. So are
        columns read that a claim, or an INSERT, has left out."""
        if {*map(type, (*args, *kwargs.values()))} <= {type(None)}:  # else a queryset says where
            using = using or self._state.db
        super().refresh_from_db(using, fields, *args, **kwargs)

    @property
    def state(self) -> str:
        """The job's state in one word."""
        if self.status == Status.DONE and self.dequeued_time is None and self.expires_at:
            return "expired"
        labels = dict(Status.choices)
        return str(labels.get(self.status, f"unknown state {self.status}"))

    @property
    def last_error(self) -> str:
        """The newest entry of ``errors`` in one line, or ''."""
        if not self.errors:
            return ""
        try:
            exception, message = self.errors[-1]["exception"], self.errors[-1]["message"]
        except (LookupError, TypeError):
            exception = message = None
        if not (isinstance(exception, str) and isinstance(message, str)):
            return str(self.errors)  # somebody wrote it by hand
        return message if exception in VERBS else f"{exception}: {message}"
