"""Who works."""

from typing import TYPE_CHECKING

from django.contrib import admin
from django.contrib.admin import ModelAdmin
from django.db.models import F, QuerySet
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat

from ..models import Worker
from ..roster import running_jobs, state_of, with_ages

if TYPE_CHECKING:  # at run time it takes no parameters
    WorkerBase = ModelAdmin[Worker]
else:
    WorkerBase = ModelAdmin


@admin.register(Worker)
class WorkerAdmin(WorkerBase):
    list_display = (
        "uuid",
        "host",
        "pid",
        "state",
        "tables",
        "started_at",
        "beat_at",
        "jobs",
        "resident",
    )
    ordering = (F("stopped_at").asc(nulls_first=True), "-started_at")
    readonly_fields = (*list_display, "stop_reason", "stopped_at")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Worker]:
        rows: QuerySet[Worker] = with_ages(super().get_queryset(request))
        return rows

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        # Without its row a dead worker is missed by nobody, and its jobs wait for their time.
        return False

    @admin.display(description="state")
    def state(self, worker: Worker) -> str:
        state = state_of(worker)
        return f"{state}: {worker.stop_reason}" if worker.stop_reason else state

    @admin.display(description="serves")
    def tables(self, worker: Worker) -> str:
        return ", ".join(worker.serves)

    @admin.display(description="runs")
    def jobs(self, worker: Worker) -> str:
        return ", ".join(job for job, _ in running_jobs(worker))

    @admin.display(description="memory", ordering="memory")
    def resident(self, worker: Worker) -> str:
        return filesizeformat(worker.memory)
