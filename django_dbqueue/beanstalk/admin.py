"""Tube jobs in the admin."""

from typing import Any, ClassVar

from django.contrib import admin

from ..admin import JobAdmin
from ..admin.arguments import Argument, argument
from .models import TubeJob

COUNTERS = ("reserves", "timeouts", "releases", "buries", "kicks")


@admin.register(TubeJob)
class TubeJobAdmin(JobAdmin):
    open_columns: ClassVar[frozenset[str]] = JobAdmin.open_columns | {
        *("delay", "ttr", "burial"),
        *COUNTERS,
    }

    def arguments(self, job: Any, may_inspect: bool) -> list[Argument]:
        """A body that is text is shown as such, what is secret in its JSON masked."""
        return [
            argument(one.name, _readable(job.body), self.masked) if one.name == "body" else one
            for one in super().arguments(job, may_inspect)
        ]


def _readable(body: Any) -> str | bytes:
    """The text that the bytes are, or the bytes."""
    try:
        text = bytes(body).decode()
    except UnicodeDecodeError:
        return bytes(body)
    return text if text.replace("\n", "").replace("\t", "").isprintable() else bytes(body)
