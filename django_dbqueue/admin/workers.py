"""Who works, and which queues people have paused."""

from typing import TYPE_CHECKING

from django.contrib import admin
from django.contrib.admin import ModelAdmin
from django.http import HttpRequest

from ..models import Queue, Worker

if TYPE_CHECKING:  # at run time it takes no parameters
    WorkerBase = ModelAdmin[Worker]
    QueueBase = ModelAdmin[Queue]
else:
    WorkerBase = QueueBase = ModelAdmin


@admin.register(Worker)
class WorkerAdmin(WorkerBase):
    list_display = ("uuid", "host", "pid", "started_at", "beat_at", "running", "memory")
    readonly_fields = ("uuid", *list_display[1:])

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False


@admin.register(Queue)
class QueueAdmin(QueueBase):
    list_display = ("job_table", "name", "paused_until", "pause_reason")
