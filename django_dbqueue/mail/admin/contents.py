"""The views that serve what an email holds: strangers wrote it, so nothing of it may act here."""

import re
from datetime import datetime
from email.utils import format_datetime
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from ...admin.base import ReadOnlyAdmin
from ..models.email import read
from ..outcomes import explain
from .preview import html_of

# No script, no form, no plugin, nothing from elsewhere; images only those in the document itself.
SHUT_OFF = {
    "Content-Security-Policy": (
        "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    ),
    "X-Frame-Options": "SAMEORIGIN",
    "X-Content-Type-Options": "nosniff",
    "X-DNS-Prefetch-Control": "off",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class ContentViews(ReadOnlyAdmin):
    """A preview of the HTML and the message as a file, for those who may see contents."""

    def get_urls(self) -> list[Any]:
        name = f"{self.opts.app_label}_{self.opts.model_name}"
        guarded = self.admin_site.admin_view
        return [
            path("<int:pk>/preview/", guarded(self.preview_view), name=f"{name}_preview"),
            path("<int:pk>/message.eml", guarded(self.eml_view), name=f"{name}_eml"),
            *super().get_urls(),
        ]

    @method_decorator(require_safe)
    def preview_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        email = self._visible(request, pk)
        try:
            page = html_of(read(email))
        except ValueError as error:
            return _refusal(str(error))
        if page is None:
            return _refusal(_("This message has no HTML."))
        return HttpResponse(page, "text/html; charset=utf-8", headers=SHUT_OFF)

    @method_decorator(require_safe)
    def eml_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        email = self._visible(request, pk)
        try:
            message = read(email)
        except ValueError as error:
            return _refusal(str(error))
        created_at = email.created_at
        names = {name.lower() for name in message.extra_headers}
        if "date" not in names and isinstance(created_at, datetime):
            # Else it would be that of this moment, another one with every look.
            is_aware = timezone.is_aware(created_at)
            aware = created_at if is_aware else timezone.make_aware(created_at)
            message.extra_headers["Date"] = format_datetime(aware)
        try:
            data = message.message().as_bytes()
        except Exception as error:  # noqa: BLE001  # why: so would it when it is delivered, which matters
            return _refusal(_("it cannot be made: %(why)s") % {"why": explain(error)})
        data = re.sub(rb"\r?\n", b"\r\n", data)
        name = f"{self.opts.model_name}-{email.pk}.eml"
        headers = SHUT_OFF | {"Content-Disposition": f'attachment; filename="{name}"'}
        return HttpResponse(data, "message/rfc822", headers=headers)

    def _visible(self, request: HttpRequest, pk: int) -> Any:
        if not self.has_inspect_permission(request):
            raise PermissionDenied
        email = self.get_object(request, str(pk))
        if email is None:
            raise Http404
        if not self.has_view_permission(request, email):
            raise PermissionDenied
        return email


def _refusal(text: str) -> HttpResponse:
    return HttpResponse(text, "text/plain; charset=utf-8", status=404, headers=SHUT_OFF)
