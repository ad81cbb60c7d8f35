"""Who delivers: what rests, and how much of the limits is used."""

from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin import ModelAdmin
from django.core.exceptions import ImproperlyConfigured
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from ...admin.confirmation import log
from ...lifecycle.rates import Bucket
from ...models import RateBucket
from ...models.rate_bucket import loaded
from ...texts.wording import number, period_word, rate_word
from ..conf import rates_for
from ..models import Mailer
from ..models.mailer import JOB_TABLE, NOW

PAUSE_SECONDS = 300.0

if TYPE_CHECKING:  # at run time it takes no parameters
    Base = ModelAdmin[Mailer]
else:
    Base = ModelAdmin


@admin.register(Mailer)
class MailerAdmin(Base):
    list_display = ("name", "paused_until", "pause_reason", "limits", "in_use")
    list_display_links = None
    ordering = ("name",)
    fields = readonly_fields = list_display
    actions = ("pause_selected", "resume_selected")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Mailer]:
        # One query for all of them.
        bucket = RateBucket.objects.filter(job_table=JOB_TABLE, name=OuterRef("name"))
        state = Subquery(bucket.values("state")[:1])
        return super().get_queryset(request).annotate(**NOW, bucket_state=state)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        # Its row knows what of its limits is used.
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        # For the list's actions only.
        return obj is None and super().has_change_permission(request)

    @admin.display(description=gettext_lazy("limits"))
    def limits(self, mailer: Mailer) -> str:
        """In recipients."""
        try:
            return ", ".join(map(rate_word, rates_for(mailer.name))) or _("none")
        except ImproperlyConfigured as error:
            return str(error)

    @admin.display(description=gettext_lazy("used of them now"))
    def in_use(self, mailer: Any) -> str:
        try:
            rates = rates_for(mailer.name)
        except ImproperlyConfigured:
            return ""
        bucket = Bucket(loaded(mailer.bucket_state or "{}"), rates, mailer.now.timestamp())
        text = _("%(used)s of %(limit)s (%(period)s)")
        return ", ".join(
            text
            % {
                "used": number(bucket.used(rate)),
                "limit": number(rate.limit),
                "period": period_word(rate),
            }
            for rate in bucket.rates
        )

    @admin.action(permissions=["change"], description=gettext_lazy("Pause for 5 minutes"))
    def pause_selected(self, request: HttpRequest, queryset: QuerySet[Mailer]) -> None:
        reason = f"by {request.user.get_username()}, in the admin"
        chosen = list(queryset)
        for mailer in chosen:
            Mailer.objects.pause(mailer.name, PAUSE_SECONDS, reason)
        self._report(request, chosen, "Paused for 5 minutes", _("Paused for 5 minutes: %(names)s"))

    @admin.action(permissions=["change"], description=pgettext_lazy("action", "Resume"))
    def resume_selected(self, request: HttpRequest, queryset: QuerySet[Mailer]) -> None:
        chosen = list(queryset)
        for mailer in chosen:
            Mailer.objects.resume(mailer.name)
        self._report(request, chosen, "Resumed", _("Resumed: %(names)s"))

    def _report(self, request: HttpRequest, chosen: list[Mailer], logged: str, said: str) -> None:
        if not chosen:  # they have gone
            self.message_user(request, said % {"names": _("none")}, messages.WARNING)
            return
        log(request, chosen, logged)
        names = ", ".join(map(str, chosen))
        self.message_user(request, said % {"names": names}, messages.SUCCESS)
