"""Queued mail in the admin: what waits, what was sent, what failed and why. Nothing is edited."""

from typing import Any

from django.contrib import admin
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from ..admin import ArchivedJobAdmin, JobAdmin
from ..admin.jobs import ReadOnlyAdmin
from ..lifecycle.lanes import ready_queues
from ..lifecycle.table import table_of
from ..models import Queue
from ..states import Status
from . import preview
from .models import WORDS, ArchivedEmail, Email

MOST_ROWS = 10_000
LIST = (
    *("mail_state", "subject", "to", "owner", "dequeued_time", "retry_at", "attempts"),
    *("error", "created_at"),
)
PAGE = [
    *("mail_state", "message_id", "subject", "from_email", "recipients", "using"),
    *("queue", "priority", "owner", "dequeued_time", "retry_at", "attempts", "crashes"),
    *("created_at", "finished_at", "expires_at", "failures", "content"),
]


class CappedPaginator(Paginator):  # type: ignore[type-arg]
    """Counts and shows the first 10,000 rows: counting more would read the whole table."""

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        return int(rows.order_by()[:MOST_ROWS].count())


class StateFilter(admin.SimpleListFilter):
    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        words = WORDS | {Status.DELAYED: "to be retried"}
        return [(str(status.value), word) for status, word in sorted(words.items())]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        known = {key for key, _ in self.lookup_choices}
        return queryset.filter(status=self.value()) if self.value() in known else queryset


class QueueFilter(admin.SimpleListFilter):
    """The queues that have unsent mail or were ever paused: found without reading the table."""

    title = "queue"
    parameter_name = "queue"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        database = model_admin.get_queryset(request).db
        named = Queue.objects.using(database).filter(job_table=Email._meta.label_lower)
        names = {*ready_queues(table_of(Email, database)), *named.values_list("name", flat=True)}
        return [(name, name) for name in sorted(names)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(queue=self.value()) if self.value() else queryset


class MailPages(ReadOnlyAdmin):
    """What the queue and the archive share: a list that loads no message, a page to read."""

    list_display = LIST
    list_display_links = ("mail_state", "subject")
    paginator = CappedPaginator
    search_fields = ("message_id__exact",)
    search_help_text = "A whole Message-ID, with its angle brackets"
    fields = PAGE

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("message")

    def get_list_filter(self, request: HttpRequest) -> list[Any]:
        return [StateFilter]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return PAGE

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # For the list's actions only: a message's own page is for reading.
        return obj is None and super().has_change_permission(request)

    @admin.display(description="state", ordering="status")
    def mail_state(self, email: Any) -> str:
        return str(email.mail_state)

    @admin.display(description="to")
    def to(self, email: Any) -> str:
        return preview.shortened(email.recipients, 60)

    @admin.display(description="last error")
    def error(self, email: Any) -> str:
        return preview.shortened(email.last_error, 100)

    @admin.display(description="errors")
    def failures(self, email: Any) -> SafeString:
        rows = [
            (e.get("attempt"), e.get("exception"), e.get("message"), e.get("traceback", ""))
            for e in email.errors
        ]
        return format_html_join("", "<p>Attempt {}: {}: {}</p><pre>{}</pre>", rows)

    @admin.display(description="message")
    def content(self, email: Any) -> SafeString:
        piece = "<h4>{}</h4><pre style='white-space: pre-wrap'>{}</pre>"
        return format_html_join("", piece, preview.pieces(email))


@admin.register(Email)
class EmailAdmin(MailPages, JobAdmin):
    def get_list_filter(self, request: HttpRequest) -> list[Any]:
        return [StateFilter, QueueFilter]

    @admin.action(permissions=["change"], description="Retry now")
    def kick_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        super().kick_selected(request, queryset)

    @admin.action(permissions=["change"], description="Mark as failed")
    def bury_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        super().bury_selected(request, queryset)


@admin.register(ArchivedEmail)
class ArchivedEmailAdmin(MailPages, ArchivedJobAdmin):
    pass
