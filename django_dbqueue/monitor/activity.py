"""Activity: the entries that we wrote into the admin's log, the newest first."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.apps import apps
from django.db import DEFAULT_DB_ALIAS
from django.db.models import Model

from ..models.columns import JobColumns
from ..operate.recording import DATABASE, DELETED, FILTERS

# Entries of the whole log that one look goes through: most of them may be of other models.
LOOKED_THROUGH = 20_000


@dataclass(frozen=True)
class RecordedAction:
    """``said`` is what was done; ``about`` a row, or how many; ``filters`` those of the list, which
    may tell what only they may know who may inspect. ``key`` is '' where it was several,
    ``database`` where nobody knows it. What ``is_deleted`` has no page any more."""

    id: int
    moment: datetime
    person: str
    model: type[Model]
    about: str
    key: str
    said: str
    filters: str
    database: str
    is_deleted: bool


@dataclass(frozen=True)
class ActivityPage:
    """``before`` is where another look goes on; None at the end of the log."""

    found: list[RecordedAction]
    before: int | None = None


def activity(
    limit: int = 20, before: int | None = None, may_see: Callable[[type[Model]], bool] | None = None
) -> ActivityPage:
    """The last actions on models of ours that somebody ``may_see``, by no index: among 20,000
    entries of the log. There are none where the admin is not installed."""
    if not apps.is_installed("django.contrib.admin"):
        return ActivityPage([])
    models = of_ours(may_see)
    log: Any = apps.get_model("admin", "LogEntry")._default_manager.order_by("-pk")
    if before is not None:
        log = log.filter(pk__lt=before)
    newest = log.values_list("pk", flat=True).first()
    if newest is None:
        return ActivityPage([])
    first = newest - LOOKED_THROUGH
    entries = log.filter(pk__gt=first, content_type__in=models).select_related("user")
    found = list(entries[: limit + 1])
    if len(found) > limit:
        return ActivityPage([_recorded(one, models) for one in found[:limit]], found[limit - 1].pk)
    has_more = log.filter(pk__lte=first).exists()
    return ActivityPage([_recorded(one, models) for one in found], first + 1 if has_more else None)


def without_filters(entry: Any) -> Any:
    """The entry, which is not saved, as all may read it who may see what it is about."""
    said, is_ours, _filters = entry.change_message.rpartition(FILTERS)
    if is_ours:
        entry.change_message = said
    return entry


def of_ours(may_see: Callable[[type[Model]], bool] | None = None) -> dict[int, type[Model]]:
    """Queue tables, archives and the models of our apps, by the keys of their content types."""
    models = {
        (model._meta.app_label, model._meta.model_name or ""): model
        for model in apps.get_models()
        if issubclass(model, JobColumns) or model.__module__.startswith("django_dbqueue.")
    }
    labels = {label for label, _ in models}
    kinds: Any = apps.get_model("contenttypes", "ContentType")._default_manager
    return {
        kind.pk: models[kind.app_label, kind.model]
        for kind in kinds.filter(app_label__in=labels)
        if (kind.app_label, kind.model) in models
        and (may_see is None or may_see(models[kind.app_label, kind.model]))
    }


def _recorded(entry: Any, models: dict[int, type[Model]]) -> RecordedAction:
    # Of what Django wrote itself, its words.
    text = entry.get_change_message() or str(entry.get_action_flag_display())
    said, is_ours, filters = text.rpartition(FILTERS)
    database = ""
    if not is_ours:
        said, filters = text, ""
    else:
        found, named, place = said.rpartition(DATABASE)
        said, database = (found, place) if named else (place, DEFAULT_DB_ALIAS)
    return RecordedAction(
        id=entry.pk,
        moment=entry.action_time,
        person=entry.user.get_username(),
        model=models[entry.content_type_id],
        about=entry.object_repr,
        key=entry.object_id or "",
        said=said,
        filters="" if filters == "none" else filters,
        database=database,
        is_deleted=entry.action_flag == DELETED,
    )
