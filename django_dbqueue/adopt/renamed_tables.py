"""What is stored of a queue table under its name, and where that name has changed."""

from collections.abc import Iterator, Sequence
from typing import Any

from django.apps import AppConfig
from django.db import connections, router
from django.db.migrations import Migration, RenameModel
from django.db.models.signals import post_migrate, pre_migrate
from django.utils.translation import gettext_noop

from ..fields import DbNow
from ..models import FailureCount, FailureKind, Minute, Queue, RateBucket, Receipt, Total
from ..models.queue import ALL

Key = tuple[str, str]  # app label, model name

TABLES_MAX = 100
# What counts of jobs and rooms there are is made again by itself; receipts name a database, too.
TAKEN_ALONG = (Queue, Minute, Total, RateBucket, FailureKind, FailureCount)
PAUSE = gettext_noop("pauses a table that is not there")
RECEIPTS = gettext_noop("are receipts of a table that is not there")
ADVICE = {
    PAUSE: gettext_noop(
        "if the table has another name now, pause that queue again; delete this row"
    ),
    RECEIPTS: gettext_noop(
        "if the table has another name now, its jobs may have their effects once more: rename it "
        "back until they are done; delete the receipts otherwise"
    ),
}

_before: dict[str, dict[Key, str]] = {}


def connect(sender: AppConfig) -> None:
    """From here on ``migrate`` takes along what is stored of a table that it renames."""
    pre_migrate.connect(_remember, sender=sender)
    post_migrate.connect(_move, sender=sender)


def strays(using: str) -> Iterator[tuple[str, str, str]]:
    """What is stored in a database of tables that are gone: table, name of it, what it is."""
    tables = {using: set(connections[using].introspection.table_names())}
    paused = Queue.objects.using(using).filter(paused_until__gt=DbNow()).order_by("pk")
    for queue in paused if Queue._meta.db_table in tables[using] else ():
        if queue.job_table not in tables[using] | {ALL}:
            yield queue.job_table, queue.name, PAUSE
    for place in _places(using) if Receipt._meta.db_table in tables[using] else ():
        table, _, alias = place.rpartition("@")
        if alias in connections and alias not in tables:
            tables[alias] = set(connections[alias].introspection.table_names())
        if table not in tables.get(alias, {table}):
            yield table, place, RECEIPTS


def _places(using: str) -> Iterator[str]:
    """By hopping: there may be many of each."""
    places = Receipt.objects.using(using).order_by("job_table").values_list("job_table", flat=True)
    place = places.first()
    for _ in range(TABLES_MAX):
        if place is None:
            return
        yield place
        place = places.filter(job_table__gt=place).first()


def _remember(using: str, apps: Any, **_: Any) -> None:
    _before[using] = _tables(apps)


def _move(
    using: str, apps: Any = None, plan: Sequence[tuple[Migration, bool]] = (), **_: Any
) -> None:
    if apps is None:
        return  # ``flush`` sends the signal, too, as after each TransactionTestCase
    before, after = _before.pop(using, {}), _tables(apps)
    known = (Queue._meta.app_label, Queue._meta.model_name) in after
    if not known or not router.allow_migrate_model(using, Queue):
        return
    for key, table in before.items():
        renamed = after.get(_followed(key, plan), table)
        if renamed == table:
            continue
        for model in TAKEN_ALONG:
            rows = model.objects.using(using)
            if not rows.filter(job_table=renamed).exists():
                rows.filter(job_table=table).update(job_table=renamed)


def _tables(apps: Any) -> dict[Key, str]:
    metas = [model._meta for model in apps.get_models()]
    return {(meta.app_label, meta.model_name): meta.db_table for meta in metas}


def _followed(key: Key, plan: Sequence[tuple[Migration, bool]]) -> Key:
    """What a model is called after the migrations."""
    label, name = key
    for migration, backwards in plan:
        for operation in reversed(migration.operations) if backwards else migration.operations:
            if isinstance(operation, RenameModel) and migration.app_label == label:
                old, new = operation.old_name_lower, operation.new_name_lower
                old, new = (new, old) if backwards else (old, new)
                name = new if name == old else name
    return label, name
