"""On which databases rows are, and which of them a page is about: its address names it."""

from typing import Any
from urllib.parse import parse_qs

from django.apps import apps
from django.contrib import admin
from django.db import DEFAULT_DB_ALIAS
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy

from ..lifecycle.policy import policy_of
from ..models import Job
from ..worker.served import all_served

DATABASE = "database"


def aliases(model: type[Model]) -> list[str]:
    """Those of a queue table, or of an archive; else those of all queue tables."""
    if issubclass(model, Job):
        known = set(model.written_databases())
    elif tables := others(model):
        known = {alias for one in tables for alias in one.written_databases()}
    else:
        known = {served.using for served in all_served()}
    return sorted(known or {DEFAULT_DB_ALIAS}, key=lambda one: (one != DEFAULT_DB_ALIAS, one))


def alias_of(request: HttpRequest, model: type[Model]) -> str:
    """The database that the page is about; the address names it where there are several."""
    kept = parse_qs(request.GET.get("_changelist_filters", ""))
    wanted = request.GET.get(DATABASE) or kept.get(DATABASE, [""])[0]
    known = aliases(model)
    return wanted if wanted in known else known[0]


def query_of(model: type[Model], alias: str | None) -> dict[str, str]:
    """What the address of a page needs for that."""
    known = aliases(model)
    return {DATABASE: alias} if alias in known and alias != known[0] else {}


def others(model: type[Model]) -> list[type[Any]]:
    """The archive of a queue table, or the queue tables of an archive."""
    if issubclass(model, Job):
        archive = policy_of(model).archive
        return [apps.get_model(archive)] if archive else []
    label = model._meta.label_lower
    return [
        one
        for one in apps.get_models()
        if issubclass(one, Job) and (policy_of(one).archive or "").lower() == label
    ]


class DatabaseFilter(admin.SimpleListFilter):
    """Only where there are several."""

    title = gettext_lazy("database")
    parameter_name = DATABASE

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        known = aliases(model_admin.model)
        return [(alias, alias) for alias in known] if len(known) > 1 else []

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset  # the rows are asked for in that database already
