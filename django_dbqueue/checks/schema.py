"""Which tables and columns the queues of a database lack, and the commands that make them."""

from collections.abc import Container, Iterable
from typing import Any

from django.apps import apps
from django.db import DEFAULT_DB_ALIAS, connections, models, router
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader

from ..models import ArchivedJob, Job, Worker

OURS = {Worker._meta.app_label}


def missing_migrations(aliases: Iterable[str], receipts: Iterable[str] = ()) -> str:
    """What to run where migrations are to be made or applied first, or ''.

    ``aliases`` hold queue tables; jobs of others write to ``receipts`` exactly once.
    """
    commands = [_commands(using) for using in sorted(set(aliases))]
    commands += [_of_receipts(using) for using in sorted(set(receipts) - set(aliases))]
    lines = [f"  python manage.py {command}" for some in commands for command in some]
    if not lines:
        return ""
    return "\n".join(
        ["The queue tables are not up to date. Run this first:", *dict.fromkeys(lines)]
    )


def is_migrated(using: str, labels: Container[str]) -> bool:
    """Whether these apps' migrations count as applied."""
    executor = MigrationExecutor(connections[using])
    targets = [key for key in executor.loader.graph.leaf_nodes() if key[0] in labels]
    return not executor.migration_plan(targets)


def _commands(using: str) -> list[str]:
    # All of this database's queue tables: the reaper looks after each of them.
    wanted = [model for model in _models() if router.allow_migrate_model(using, model)]
    unmade = _unmade(wanted, using)
    commands = [f"makemigrations {' '.join(sorted(unmade))}"] if unmade else []
    if unmade or not is_migrated(using, {model._meta.app_label for model in wanted} | OURS):
        commands.append("migrate" if using == DEFAULT_DB_ALIAS else f"migrate --database {using}")
    return commands


def _of_receipts(using: str) -> list[str]:
    return [] if is_migrated(using, OURS) else [f"migrate dbqueue --database {using}"]


def _models() -> list[type[models.Model]]:
    found = (model for model in apps.get_models() if issubclass(model, Job | ArchivedJob))
    return [model for model in found if model._meta.managed and not model._meta.proxy]


def _unmade(wanted: list[type[models.Model]], using: str) -> set[str]:
    """The apps whose migrations know nothing of a table, or of a column."""
    loader = MigrationLoader(connections[using])
    known: Any = loader.project_state().models
    tables = set(connections[using].introspection.table_names())
    unmade = set()
    for model in wanted:
        meta = model._meta
        if meta.app_label in loader.unmigrated_apps:
            is_made = meta.db_table in tables
        else:
            state = known.get((meta.app_label, meta.model_name))
            is_made = state and {f.name for f in meta.local_concrete_fields} <= set(state.fields)
        unmade |= set() if is_made else {meta.app_label}
    return unmade
