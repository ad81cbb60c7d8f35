"""Tasks in the admin."""

from typing import Any, ClassVar

from django.contrib import admin
from django.utils.translation import gettext_lazy

from ..admin import JobAdmin
from .models import AsyncTask, Task, TaskRow
from .reasons import progress_text


@admin.register(Task, AsyncTask)
class TaskAdmin(JobAdmin):
    list_display: Any = ("id", "task_path", *JobAdmin.list_display[1:], "progress_so_far")
    search_fields: ClassVar[Any] = ("id__exact", "result_id__exact", "dedup_key__exact")
    search_help_text = gettext_lazy(
        "The number of a task, the id of its result, or a whole dedup key"
    )
    open_columns: ClassVar[frozenset[str]] = JobAdmin.open_columns | {
        *("task_path", "result_id", "backend", "run_after", "max_attempts", "in_transaction"),
        *("overdue_pauses", "progress", "progress_so_far"),
    }

    @admin.display(description=gettext_lazy("progress"))
    def progress_so_far(self, row: TaskRow) -> str:
        return progress_text(row.progress) if row.progress else ""
