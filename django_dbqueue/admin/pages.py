"""The pages of this app in the admin: their addresses, for users who may see them, and what all
have in common."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import django
from django.contrib.admin import AdminSite
from django.contrib.admin.utils import quote
from django.db.models import Model
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, reverse
from django.utils.text import capfirst
from django.utils.translation import gettext

from ..worker.served import queue_tables
from .databases import alias_of, query_of

# Where Django's own pages have them in a list, which its style sheet is made for.
CRUMBS_IN_LIST = django.VERSION >= (6, 1)
# Sent with the requests by which a page renews its regions.
AUTO_REFRESH_HEADER = "X-DBQueue-Live"


def page_url(site: AdminSite, name: str, *args: Any, **query: Any) -> str:
    """The address of a page of this site, whatever the site is called; '' where there is none."""
    try:
        url = reverse(f"admin:{name}", args=args, current_app=site.name)
    except NoReverseMatch:
        return ""
    return f"{url}?{urlencode(query)}" if query else url


def list_url(site: AdminSite, request: HttpRequest, model: type[Model], **query: Any) -> str:
    """The list of a model, filtered; '' where it cannot be seen."""
    return _model_url(site, request, model, "changelist", **query)


def row_url(
    site: AdminSite, request: HttpRequest, model: type[Model], key: Any, alias: str | None = None
) -> str:
    """The page of one row on a database; '' where it cannot be seen."""
    return _model_url(site, request, model, "change", quote(key), **query_of(model, alias))


def job_url(site: AdminSite, request: HttpRequest, job: str, alias: str | None) -> str:
    """The page of a job that a worker names as ``table key``."""
    label, _, key = job.partition(" ")
    for model in queue_tables():
        if model._meta.label_lower == label and key:
            return row_url(site, request, model, key, alias)
    return ""


def _model_url(
    site: AdminSite, request: HttpRequest, model: type[Model], view: str, *args: Any, **query: Any
) -> str:
    model_admin = site._registry.get(model)
    if model_admin is None or not model_admin.has_view_permission(request):
        return ""
    name = f"{model._meta.app_label}_{model._meta.model_name}_{view}"
    return page_url(site, name, *args, **query)


def respond(
    model_admin: Any,
    request: HttpRequest,
    template: str,
    context: dict[str, Any],
    status: int | None = None,
) -> TemplateResponse:
    """A page of the site that is neither a list nor a row."""
    site = model_admin.admin_site
    request.current_app = site.name
    common = {
        **site.each_context(request),
        "opts": model_admin.opts,
        "media": model_admin.media,
        **_above(model_admin, context),
    }
    return TemplateResponse(request, template, common | context, status=status)


def above_row(model_admin: Any, request: HttpRequest) -> dict[str, Any]:
    """For the context of the page of a row that is not on the first database, to whose list
    Django's own would lead."""
    model = model_admin.model
    query = query_of(model, alias_of(request, model))
    if not query:
        return {}
    url = list_url(model_admin.admin_site, request, model, **query)
    title = capfirst(model_admin.opts.verbose_name_plural)
    return _above(model_admin, {"parent_title": title, "parent_url": url})


def _above(model_admin: Any, context: dict[str, Any]) -> dict[str, Any]:
    """What ``dbqueue/crumbs.html`` shows."""
    return {"crumbs": list(_crumbs(model_admin, context)), "crumbs_in_list": CRUMBS_IN_LIST}


def _crumbs(model_admin: Any, context: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The pages above this one."""
    site, opts = model_admin.admin_site, model_admin.opts
    yield gettext("Home"), page_url(site, "index")
    yield str(opts.app_config.verbose_name), page_url(site, "app_list", opts.app_label)
    if "parent_title" in context:
        yield context["parent_title"], context["parent_url"]


def auto_refresh(request: HttpRequest) -> dict[str, Any]:
    """For the context of a page that includes ``dbqueue/live.html``, which renews its regions: a
    renewal leaves the messages to the next load of the page by a person."""
    return {"live": True} | ({"messages": ()} if AUTO_REFRESH_HEADER in request.headers else {})
