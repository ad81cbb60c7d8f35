"""The page of what people did."""

from dataclasses import dataclass
from typing import Any

from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from ..monitor.activity import RecordedAction, activity
from ..operate.cursor import BIGINT_MAX
from .databases import aliases, query_of
from .formatting import time_tag
from .pages import list_url, page_url, respond, row_url
from .permissions import may
from .said import in_words

LIST = "dbqueue_queue_activity"
ACTIONS_A_PAGE = 50


@dataclass(frozen=True)
class Row:
    """An action as the page shows it; '' is what there is not, or not for this person."""

    moment: SafeString | str
    person: str
    said: str
    about: str
    url: str
    table: str
    database: str  # where there are several
    filters: str


def activity_view(model_admin: Any, request: HttpRequest) -> TemplateResponse:
    if not model_admin.has_view_permission(request):
        raise PermissionDenied
    site, asked = model_admin.admin_site, request.GET.get("before", "")
    # No more digits than a key has: Python refuses to read thousands of them.
    before = min(int(asked[:19]), BIGINT_MAX) if asked.isascii() and asked.isdecimal() else None
    page = activity(ACTIONS_A_PAGE, before, lambda model: may(request, model, "view"))
    older = "" if page.before is None else page_url(site, LIST, before=page.before)
    context = {
        "title": _("Activity"),
        "parent_title": _("Queues"),
        "parent_url": page_url(site, "dbqueue_queue_changelist"),
        "rows": [row_of(one, site, request) for one in page.found],
        "older_url": older,
        "newest_url": "" if before is None else page_url(site, LIST),
    }
    return respond(model_admin, request, "dbqueue/activity.html", context)


def row_of(one: RecordedAction, site: AdminSite, request: HttpRequest) -> Row:
    return Row(
        moment=time_tag(one.moment),
        person=one.person,
        said=in_words(one.said),
        about=one.about,
        url=_url(one, site, request),
        table=str(one.model._meta.verbose_name_plural),
        database=one.database if len(aliases(one.model)) > 1 else "",
        # They may hold what the list was searched for.
        filters=one.filters if may(request, one.model, "inspect") else "",
    )


def _url(one: RecordedAction, site: AdminSite, request: HttpRequest) -> str:
    if not one.key:
        return list_url(site, request, one.model, **query_of(one.model, one.database))
    return "" if one.is_deleted else row_url(site, request, one.model, one.key, one.database)
