"""Ways from one page to another, where this site has the page and its user may see it."""

from typing import Any
from urllib.parse import urlencode

from django.contrib.admin import AdminSite
from django.contrib.admin.utils import quote
from django.db.models import Model
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse

from ..worker.served import queue_tables


def page(site: AdminSite, name: str, *args: Any, **query: Any) -> str:
    """The address of a page of this site, whatever the site is called; '' where there is none."""
    try:
        url = reverse(f"admin:{name}", args=args, current_app=site.name)
    except NoReverseMatch:
        return ""
    return f"{url}?{urlencode(query)}" if query else url


def list_of(site: AdminSite, request: HttpRequest, model: type[Model], **query: Any) -> str:
    """The list of a model, filtered; '' where it cannot be seen."""
    meta = model._meta
    if not _may_see(site, request, model):
        return ""
    return page(site, f"{meta.app_label}_{meta.model_name}_changelist", **query)


def of_row(site: AdminSite, request: HttpRequest, model: type[Model], key: Any) -> str:
    """The page of one row; '' where it cannot be seen."""
    meta = model._meta
    if not _may_see(site, request, model):
        return ""
    return page(site, f"{meta.app_label}_{meta.model_name}_change", quote(key))


def job_page(site: AdminSite, request: HttpRequest, job: str) -> str:
    """The page of a job that a worker names as ``table key``."""
    label, _, key = job.partition(" ")
    for model in queue_tables():
        if model._meta.label_lower == label and key:
            return of_row(site, request, model, key)
    return ""


def _may_see(site: AdminSite, request: HttpRequest, model: type[Model]) -> bool:
    model_admin = site._registry.get(model)
    return model_admin is not None and model_admin.has_view_permission(request)
