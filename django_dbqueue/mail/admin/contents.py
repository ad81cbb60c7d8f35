"""The views that serve what a mail holds: strangers wrote it, so nothing of it may act here."""

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_safe

from ...admin.base import ReadOnlyAdmin
from ..storing.reading import read, read_eml
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
    """A preview of the HTML and the message as a file, for whoever may see contents."""

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
            return _refusal("This message has no HTML.")
        return HttpResponse(page, "text/html; charset=utf-8", headers=SHUT_OFF)

    @method_decorator(require_safe)
    def eml_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        email = self._visible(request, pk)
        try:
            data = read_eml(email)
        except ValueError as error:
            return _refusal(str(error))
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
