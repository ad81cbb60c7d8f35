"""System checks of ``Policy.exactly_once``: what breaks its promise, or holds locks for long."""

from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as Caution
from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper

from ..dialects import dialect_of
from ..lifecycle.policy import policy_of
from ..models import Job, Receipt
from .schema import is_migrated

LONG_RUN_SECONDS = 60


def check_exactly_once(model: type[Job]) -> Iterator[CheckMessage]:
    """Judge one queue table, without asking its database."""
    asked = policy_of(model).exactly_once
    if asked is False:
        return
    if problem := _problem(model, asked):
        yield Error(
            f"Policy.exactly_once = {asked!r}: {problem}.",
            hint=(
                "True: run() writes to the queue table's own database; the alias of another "
                "database: it writes there. See docs/exactly-once.md."
            ),
            obj=model,
            id="dbqueue.E013",
        )
    elif (seconds := policy_of(model).time_to_run) > LONG_RUN_SECONDS:
        effects = router.db_for_write(model) if asked is True else str(asked)
        blocks = (
            "On SQLite nobody else writes to the database meanwhile, not even a worker's beat."
            if dialect_of(connections[effects]).one_writer
            else "Its locks and its snapshot are held as long."
        )
        yield Caution(
            f"With exactly_once a run is one transaction, which may be open for {seconds} s here.",
            hint=f"{blocks} Set Policy.time_to_run to {LONG_RUN_SECONDS} or less.",
            obj=model,
            id="dbqueue.W004",
        )


def _problem(model: type[Job], asked: Any) -> str:
    if asked is not True and not isinstance(asked, str):
        return "it is True, False or the alias of a database"
    if asked is not True and asked not in connections:
        return "there is no such database"
    if hasattr(model, "run_batch"):
        return "a batch is not one transaction; define run(), not run_batch()"
    if asked is not True:
        return ""
    own, apart = router.db_for_write(model), []
    for field in model._meta.concrete_fields:
        target: Any = field.related_model
        if target is not None and router.db_for_write(target) != own:
            apart.append(f"{field.name} ({router.db_for_write(target)!r})")
    return f"what it names is in another database: {', '.join(apart)}" if apart else ""


def check_receipts(connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    """Where jobs of another database write to this one, it needs the table of receipts.

    As long as a migration is to make it, ``migrate`` must not be refused: workers ask for that.
    """
    models = [model for model in apps.get_models() if issubclass(model, Job)]
    writers = [model for model in models if policy_of(model).exactly_once == connection.alias]
    if not writers or Receipt._meta.db_table in connection.introspection.table_names():
        return
    if not is_migrated(connection.alias, {Receipt._meta.app_label}):
        return
    yield Error(
        f"{writers[0]._meta.label} writes to {connection.alias!r} exactly once, where the table "
        f"{Receipt._meta.db_table} is missing, though its migration counts as applied.",
        hint=(
            f"A router's allow_migrate() keeps {Receipt._meta.label} away: let it through, and "
            "make the table; the SQL is what this prints: "
            f"manage.py sqlmigrate dbqueue 0001 --database {connection.alias}"
        ),
        id="dbqueue.E016",
    )
