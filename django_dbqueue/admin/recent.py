"""The last things that people did here, as the admin's log has them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import Any

from django.contrib.admin import AdminSite
from django.contrib.admin.models import ADDITION, DELETION, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db.models import Model
from django.http import HttpRequest
from django.utils import timezone
from django.utils.safestring import SafeString

from ..models import Queue
from ..models.columns import JobColumns
from .databases import aliases
from .formatting import clock, local, number, time_tag
from .pages import row_url

SHOWN_MAX = 20
ENTRIES_MAX = 1_000  # that are read: an action on many jobs has one for each
LOOKED_AT_MAX = 5_000  # of the newest entries, other apps' among them
OURS = "django_dbqueue."
FLAGS = {ADDITION: "added", DELETION: "deleted"}


@dataclass(frozen=True)
class Deed:
    when: SafeString | str
    who: str
    what: str
    object_name: str
    url: str


def deeds(site: AdminSite, request: HttpRequest) -> list[Deed]:
    """The last 20 that were done to rows which this person may see, the latest first."""
    kind_of = partial(ContentType.objects.get_for_model, for_concrete_model=False)
    models = {kind_of(model): model for model in _seen(site, request)}
    newest = LogEntry.objects.order_by("-pk").values_list("pk", flat=True).first()
    if newest is None or not models:
        return []
    rows: Any = LogEntry.objects.filter(pk__gt=newest - LOOKED_AT_MAX, content_type__in=[*models])
    entries = list(rows.select_related("user").order_by("-pk")[:ENTRIES_MAX])
    by_id = {kind.pk: model for kind, model in models.items()}
    # One thing that was done to many jobs has an entry for each of them.
    together = groupby(entries, lambda e: (e.user_id, e.content_type_id, e.change_message))
    found = (_deed(list(group), by_id, site, request) for _, group in together)
    return [deed for deed, _ in zip(found, range(SHOWN_MAX), strict=False)]


def _when(moment: datetime) -> SafeString | str:
    """Today the time alone."""
    shown = local(moment)
    is_today = shown.date() == local(timezone.now()).date()
    return time_tag(moment, clock(moment) if is_today else f"{shown:%d %b %H:%M}")


def _seen(site: AdminSite, request: HttpRequest) -> Iterator[type[Model]]:
    for model, model_admin in site._registry.items():
        is_ours = issubclass(model, JobColumns) or model.__module__.startswith(OURS)
        if is_ours and model_admin.has_view_permission(request):
            yield model


def _deed(
    entries: list[LogEntry], models: dict[int, type[Model]], site: AdminSite, request: HttpRequest
) -> Deed:
    first, count = entries[0], len(entries)
    model = models[int(first.content_type_id or 0)]
    name, url = first.object_repr, ""
    if count > 1:
        name = f"{number(count)} {model._meta.verbose_name_plural}"
    elif first.object_id and model is not Queue and len(aliases(model)) == 1:
        url = row_url(site, request, model, first.object_id)
    what = first.get_change_message() or FLAGS.get(first.action_flag, "changed")
    # What the list was filtered by may tell more than everybody may see.
    return Deed(
        when=_when(first.action_time),
        who=first.user.get_username(),
        what=what.partition("; rows: ")[0],
        object_name=name,
        url=url,
    )
