"""What people want of the queues, and how these do."""

from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin import ModelAdmin
from django.urls import path
from django.views.decorators.http import require_safe

from ..models import Queue
from .charts import charts_view

if TYPE_CHECKING:  # at run time it takes no parameters
    QueueBase = ModelAdmin[Queue]
else:
    QueueBase = ModelAdmin


@admin.register(Queue)
class QueueAdmin(QueueBase):
    list_display = ("job_table", "name", "paused_until", "pause_reason")

    class Media:
        css = {"all": ["dbqueue/admin.css", "dbqueue/charts.css"]}

    def get_urls(self) -> list[Any]:
        guarded = self.admin_site.admin_view
        charts = guarded(require_safe(partial(charts_view, self)))
        return [path("charts/", charts, name="dbqueue_queue_charts"), *super().get_urls()]
