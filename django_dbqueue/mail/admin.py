"""Queued mail in the admin: what waits, what was sent, what failed and why. Nothing is edited."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from ..admin import ArchivedJobAdmin, JobAdmin
from ..admin.jobs import ReadOnlyAdmin
from ..lifecycle.errors import entries
from ..states import Status
from . import preview
from .models import WORDS, ArchivedEmail, Email

LIST = (
    *("mail_state", "subject", "to", "held_by", "dequeued_time", "due", "attempts"),
    *("error", "created_at"),
)
PAGE = (
    *("mail_state", "message_id", "subject", "from_email", "recipients", "using"),
    *("queue", "priority", "owner", "dequeued_time", "due", "attempts", "crashes"),
    *("created_at", "finished_at", "expires_at", "failures", "content"),
)


class MailPages(ReadOnlyAdmin):
    """What the queue and the archive share: a list that loads no message, a page to read."""

    list_display: Any = LIST
    list_display_links = ("mail_state", "subject")
    state_words = WORDS | {Status.DELAYED: "to be retried"}
    search_fields = ("message_id__exact",)
    search_help_text = "A whole Message-ID, with its angle brackets"
    fields = PAGE

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("message")

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
            for e in entries(email.errors)
        ]
        return format_html_join("", "<p>Attempt {}: {}: {}</p><pre>{}</pre>", rows)

    @admin.display(description="message")
    def content(self, email: Any) -> SafeString:
        piece = "<h4>{}</h4><pre style='white-space: pre-wrap'>{}</pre>"
        return format_html_join("", piece, preview.pieces(email))


@admin.register(Email)
class EmailAdmin(MailPages, JobAdmin):
    @admin.action(permissions=["change"], description="Retry now")
    def kick_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        super().kick_selected(request, queryset)

    @admin.action(permissions=["change"], description="Mark as failed")
    def bury_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        super().bury_selected(request, queryset)


@admin.register(ArchivedEmail)
class ArchivedEmailAdmin(MailPages, ArchivedJobAdmin):
    pass
