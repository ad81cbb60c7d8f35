"""What people want of the queues, and how these do."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin import ModelAdmin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path
from django.views.decorators.http import require_http_methods

from ..models import Queue
from ..monitor.access import outside_transactions
from .activity import activity_view
from .charts import charts_view
from .failures import failures_view, retry_view
from .finding import search_view
from .overview import overview_view
from .pages import page_url
from .pause import pause_view, resume_view
from .permissions import ViewOnly, allows

if TYPE_CHECKING:  # at run time it takes no parameters
    QueueBase = ModelAdmin[Queue]
else:
    QueueBase = ModelAdmin

READING = ("GET", "HEAD")
# By name: the page, and how it may be asked for.
PAGES: dict[str, tuple[Callable[..., Any], Sequence[str]]] = {
    "charts": (charts_view, READING),
    "failures": (failures_view, READING),
    "search": (search_view, READING),
    "activity": (activity_view, READING),
    "retry": (retry_view, ("POST",)),
    "pause": (pause_view, (*READING, "POST")),
    "resume": (resume_view, ("POST",)),
}


@admin.register(Queue)
class QueueAdmin(ViewOnly, QueueBase):
    """Every queue at a glance, instead of the rows that say which ones are paused."""

    class Media:
        css = {
            "all": [
                f"dbqueue/{name}.css"
                for name in ("admin", "charts", "overview", "glance", "search")
            ],
        }
        js = ("dbqueue/live.js", "dbqueue/keys.js")

    has_pause_permission = allows("pause")

    def get_urls(self) -> list[Any]:
        own = [
            path(f"{name}/", self._guarded(view, methods), name=f"dbqueue_queue_{name}")
            for name, (view, methods) in PAGES.items()
        ]
        overview = self._guarded(overview_view, READING)
        first = path("", overview, name="dbqueue_queue_changelist")
        return [first, *own, *super().get_urls()]

    def _guarded(self, view: Callable[..., Any], methods: Sequence[str]) -> Any:
        only = require_http_methods([*methods])(partial(view, self))
        page = self.admin_site.admin_view(only)
        return page if "POST" in methods else outside_transactions(page)

    def change_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Where the admin's log leads: a queue has no page of its own."""
        return HttpResponseRedirect(page_url(self.admin_site, "dbqueue_queue_changelist"))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
