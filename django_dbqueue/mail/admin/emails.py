"""Emails in the queue and in the archive: nothing is edited; what a person may do is an action."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, pgettext_lazy

from ...admin import ArchivedJobAdmin, JobAdmin, tabs
from ...admin.base import ReadOnlyAdmin
from ...admin.confirmation import MOST, confirmed, is_across, log
from ...admin.masking import MASK
from ...exceptions import QueueFull
from ...states import Status
from ...texts.wording import STATES, number
from ..conf import mailer_of
from ..in_doubt import mark_as_sent
from ..models import ArchivedEmail, Email
from ..models.words import MAIL_STATES
from ..privacy.erase import erase
from ..resending import Resent, resend_many
from . import page, search
from .contents import ContentViews
from .preview import shortened
from .questions import FORGET, RESEND, SETTLE

LIST = ("mail_state", "subject_line", "to", "error", "attempts", "created_at")
# Of mail that is claimed, in place of what it has not yet: so that all columns are seen at once.
OF_CLAIMED = ("held_by", "dequeued_time")
NOT_OF_CLAIMED = ("error", "created_at")
# By what the list and the page show, the column that it is of.
SHOWS = {"subject_line": "subject", "to": "recipients"}
REFUSALS_SHOWN_MAX = 10


def _allows(verb: str) -> Callable[[Any, HttpRequest], bool]:
    return lambda _admin, request: request.user.has_perm(f"dbqueue_mail.{verb}_email")


class MailPages(ContentViews):
    """What the queue and the archive share: a list that loads no message, a page to read."""

    change_form_template = "dbqueue_mail/change_form.html"
    buttons: ClassVar[Any] = page.BUTTONS
    list_display_links = ("mail_state", "subject_line")
    state_words: ClassVar[dict[Status, Any]] = {
        Status.READY: MAIL_STATES["unsent"],
        Status.CLAIMED: STATES["claimed"],
        Status.DONE: MAIL_STATES["sent"],
        Status.BURIED: MAIL_STATES["failed"],
        Status.DELAYED: pgettext_lazy("state of an email", "due later"),
    }
    action_titles: ClassVar[Any] = {"bury": gettext_lazy("Mark as failed")}
    search_fields: ClassVar[Any] = ("id__exact", "message_id__exact")
    search_help_text = gettext_lazy(
        "The number of an email, a whole Message-ID with its angle brackets, the whole address of "
        "a recipient, or the beginning of a subject"
    )
    # Whom it is for and what about is seen by all who see mail at all.
    open_columns = ReadOnlyAdmin.open_columns | {
        *("message_id", "subject", "from_email", "recipients", "using", "provider_id"),
        *("is_erased", "resend_of", "about"),
    }
    error_columns = ReadOnlyAdmin.error_columns | {"error"}
    not_exported = frozenset({"message"})
    fields: ClassVar[Any] = page.COLUMNS

    class Media:
        css = {"all": ["dbqueue_mail/admin.css"]}

    # Also of what is in the archive.
    has_resend_permission = _allows("resend")
    has_settle_permission = _allows("settle")
    has_forget_permission = _allows("forget")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("message")

    def found(
        self, request: HttpRequest, rows: QuerySet[Any], term: str, keys: set[Any]
    ) -> QuerySet[Any]:
        return search.found(self, request, rows, term, keys)

    def is_masked(self, name: str) -> bool:
        # What became of each recipient is kept by address.
        is_of_masked = name == "deliveries" and super().is_masked("recipients")
        return is_of_masked or super().is_masked(name)

    def lookup_allowed(self, lookup: str, value: Any, request: Any = None) -> bool:
        # A person who may see messages opens one; nobody searches in all of them.
        is_hidden = lookup.partition("__")[0] == "message"
        return not is_hidden and super().lookup_allowed(lookup, value, request)

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        return [one for one in super().get_list_display(request) if self._is_open(request, one)]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        names = super().get_readonly_fields(request, obj)
        return [one for one in names if self._is_open(request, one)]

    def _is_open(self, request: HttpRequest, shown: Any) -> bool:
        is_closed = shown in SHOWS and SHOWS[shown] not in self.open_columns
        return not is_closed or self.has_inspect_permission(request)

    def more_context(self, request: HttpRequest, job: Any) -> dict[str, Any]:
        may_inspect = self.has_inspect_permission(request)
        recipients = page.recipients(job, may_inspect)
        # An answer may name the address.
        if self.is_masked("recipients") or not self._is_open(request, "to"):
            recipients = [replace(one, address=MASK, text="") for one in recipients]
        found = {
            "recipients": recipients,
            "links": page.links(job, self.admin_site),
            "may_inspect": may_inspect,
        }
        if may_inspect:
            found |= page.message_of(job, self.admin_site)
        return {"mail": found}

    def arguments(self, job: Any, may_inspect: bool) -> list[Any]:
        # They are the message, which has a part of the page to itself.
        return []

    def explanation(self, job: Any, hidden: Collection[str] = ()) -> Any:
        return replace(super().explanation(job, hidden), state=job.mail_state)  # type: ignore[misc]

    def state_word(self, job: Any, explanation: Any) -> str:
        return str(job.mail_state_word)

    def buttons_for(self, request: HttpRequest, job: Any) -> list[tuple[str, Any]]:
        found: list[tuple[str, Any]] = super().buttons_for(request, job)  # type: ignore[misc]
        return [one for one in found if one[0] != "settle_selected" or job.is_in_doubt]

    def describe(self, job: Any) -> str:
        hidden = {"subject", "recipients"} - self.open_columns
        subject = MASK if "subject" in hidden else self.subject_line(job)
        recipients = MASK if "recipients" in hidden else self._recipients(job)
        text = _("%(email)s: %(subject)s, to %(recipients)s")
        text %= {"email": page.named(job), "subject": subject, "recipients": recipients}
        return shortened(text, 160)

    def _recipients(self, email: Any) -> str:
        return MASK if self.is_masked("recipients") else str(email.recipients)

    @admin.action(permissions=["resend"], description=gettext_lazy("Send again"))
    def resend_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        return confirmed(self, request, queryset, RESEND, partial(self._resend, request))

    @admin.action(permissions=["forget"], description=gettext_lazy("Erase message"))
    def forget_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        return confirmed(self, request, queryset, FORGET, partial(self._forget, request))

    def _resend(self, request: HttpRequest, chunks: Iterable[list[Any]]) -> None:
        done = Resent()
        try:
            for rows in chunks:
                some_done = resend_many(rows)
                done.old += some_done.old
                done.new += some_done.new
                done.refused += some_done.refused
        except QueueFull as full:
            done.refused.append(str(full))
        finally:
            # What was done is recorded, even if the rest failed.
            names = shortened(", ".join(map(str, done.new)), 200)
            log(request, done.old, f"Sent again as {names}")
            shown = shortened(", ".join(map(page.named, done.new)), 200)
        if done.new:
            text = ngettext(
                "%(number)s queued: %(names)s", "%(number)s queued: %(names)s", len(done.new)
            )
            text %= {"number": number(len(done.new)), "names": shown}
            self.message_user(request, text, messages.SUCCESS)
        elif not done.refused:
            text = _("0 queued: what was chosen has gone")
            self.message_user(request, text, messages.WARNING)
        self._refuse(request, done.refused)

    def _refuse(self, request: HttpRequest, refused: list[str]) -> None:
        for reason in refused[:REFUSALS_SHOWN_MAX]:
            self.message_user(request, reason, messages.ERROR)
        if more := refused[REFUSALS_SHOWN_MAX:]:
            text = ngettext("… and %(number)s more", "… and %(number)s more", len(more))
            self.message_user(request, text % {"number": number(len(more))}, messages.ERROR)

    def _forget(self, request: HttpRequest, chunks: Iterable[list[Any]]) -> None:
        done, count = self._each(request, chunks, erase, "Message erased")
        text = ngettext("%(number)s erased", "%(number)s erased", len(done))
        left = _("not finished, or erased before")
        self._tell(request, text, len(done), count, left)

    def _each(
        self,
        request: HttpRequest,
        chunks: Iterable[list[Any]],
        do: Callable[[list[Any]], list[Any]],
        logged: str,
    ) -> tuple[list[Any], int]:
        """Chunk by chunk; what was done is recorded, even if the rest failed. To which, of how
        many."""
        done: list[Any] = []
        count = 0
        try:
            for rows in chunks:
                count += len(rows)
                done += do(rows)
        finally:
            log(request, done, logged)
        return done, count

    def _tell(self, request: HttpRequest, text: str, done: int, count: int, left: str) -> None:
        """``left``: why others were left as they were."""
        text %= {"number": number(done)}
        if skipped := count - done:
            more = ngettext("%(number)s skipped: %(why)s", "%(number)s skipped: %(why)s", skipped)
            text += f", {more % {'number': number(skipped), 'why': left}}"
        level = messages.SUCCESS if done and not skipped else messages.WARNING
        self.message_user(request, text, level)

    @admin.display(description=gettext_lazy("state"), ordering="status")
    def mail_state(self, email: Any) -> str:
        return str(email.mail_state_word)

    @admin.display(description=gettext_lazy("subject"), ordering="subject")
    def subject_line(self, email: Any) -> str:
        return MASK if self.is_masked("subject") else page.shown_subject(email)

    @admin.display(description=pgettext_lazy("recipients of an email", "to"))
    def to(self, email: Any) -> str:
        return shortened(self._recipients(email), 60)

    @admin.display(description=gettext_lazy("last error"))
    def error(self, email: Any) -> str:
        return shortened(email.last_error, 100)

    @admin.display(description=gettext_lazy("mailer"))
    def mailer(self, email: Any) -> str:
        return mailer_of(email.using)


@admin.register(Email)
class EmailAdmin(MailPages, JobAdmin):
    list_display = (*LIST, *OF_CLAIMED)
    actions = (
        *("resend_selected", "kick_selected", "kick_with_selected", "reschedule_selected"),
        *("prioritize_selected", "move_selected", "settle_selected", "bury_selected"),
        *("release_selected", "forget_selected", "cancel_selected", "export_selected"),
    )

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        selected = tabs.selected_state(request)
        hidden = NOT_OF_CLAIMED if selected is Status.CLAIMED else OF_CLAIMED
        names = [name for name in super().get_list_display(request) if name not in hidden]
        is_failed = selected is Status.BURIED
        return ["failed_at" if is_failed and n == "created_at" else n for n in names]

    @admin.action(permissions=["retry"], description=pgettext_lazy("action", "Retry"))
    def kick_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        return super().kick_selected(request, queryset)

    @admin.action(
        permissions=["settle"], description=gettext_lazy("Mark as sent (what is in doubt)")
    )
    def settle_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        settle = partial(self._settle, request)
        if is_across(request):
            return confirmed(self, request, queryset, SETTLE, settle)
        settle([list(queryset.order_by("pk")[:MOST])])
        return None

    def _settle(self, request: HttpRequest, chunks: Iterable[list[Any]]) -> None:
        by = request.user.get_username()

        def settle(rows: list[Any]) -> list[Any]:
            return [email for email in rows if email.is_in_doubt and mark_as_sent(email, by)]

        done, count = self._each(request, chunks, settle, "Marked as sent")
        text = ngettext("%(number)s marked as sent", "%(number)s marked as sent", len(done))
        self._tell(request, text, len(done), count, _("not in doubt"))

    @admin.action(permissions=["bury"], description=gettext_lazy("Mark as failed"))
    def bury_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        return super().bury_selected(request, queryset)


@admin.register(ArchivedEmail)
class ArchivedEmailAdmin(MailPages, ArchivedJobAdmin):
    list_display = (*LIST[:-1], "finished_at")
    actions = ("resend_selected", "forget_selected", "export_selected")
