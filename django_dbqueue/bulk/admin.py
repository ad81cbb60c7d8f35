"""Bulk actions in the admin: what each does to which jobs, for whom, and how far it is."""

from collections.abc import Iterator
from typing import Any, ClassVar

from django.contrib import admin
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..admin import JobAdmin
from ..admin.actions import (
    BURY,
    CANCEL,
    KICK,
    MOVE,
    PRIORITIZE,
    RELEASE,
    RESCHEDULE,
)
from ..admin.arguments import Argument
from ..operate.acting import told
from . import words
from .models import BulkAction
from .verbs import ByRow, verb_of

ACTIONS = {
    one.verb.name: one for one in (BURY, CANCEL, KICK, MOVE, PRIORITIZE, RELEASE, RESCHEDULE)
}


@admin.register(BulkAction)
class BulkActionAdmin(JobAdmin):
    list_display: Any = (
        *("id", "what", "target", "which", "progress_so_far", "asked_by_name"),
        *("state", "due", "created_at"),
    )
    # It says no more than the admin's log does.
    open_columns: ClassVar[frozenset[str]] = JobAdmin.open_columns | {
        field.name for field in BulkAction._meta.local_fields if field.name != "dedup_key"
    }

    def arguments(self, job: Any, may_inspect: bool) -> list[Argument]:
        """In words."""
        return [Argument(str(name), value) for name, value in self._told(job)]

    def _told(self, row: BulkAction) -> Iterator[tuple[Any, str]]:
        yield _("action"), self.what(row)
        yield _("Queue table"), row.target
        yield _("database"), row.database
        yield _("which jobs"), words.which(row.choice)
        yield _("as they were at"), told(row.shown_at)
        yield _("asked by"), row.asked_by_name
        yield _("progress"), words.progress(row) or _("not begun")

    @admin.display(description=gettext_lazy("action"))
    def what(self, row: BulkAction) -> str:
        try:
            found = verb_of(row.verb, row.values)
        except (TypeError, ValueError):  # its app is gone, or a hand wrote it
            return str(row.verb)
        if isinstance(found, ByRow):
            return str(found.verb.label)
        return ACTIONS[row.verb].sentence(found.verb)

    @admin.display(description=gettext_lazy("which jobs"))
    def which(self, row: BulkAction) -> str:
        return words.which(row.choice)

    @admin.display(description=gettext_lazy("progress"))
    def progress_so_far(self, row: BulkAction) -> str:
        return words.progress(row)
