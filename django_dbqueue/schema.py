"""Which tables and columns the queues of a database lack, and the commands that make them."""

from collections.abc import Iterable
from typing import Any

from django.apps import apps
from django.db import connections, models, router
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader

from .models import ArchivedJob, Job, Worker


def missing_migrations(aliases: Iterable[str]) -> str:
    """What to run where migrations are to be made or applied first, or ''."""
    for using in sorted(set(aliases)):
        if commands := _commands(using):
            lines = [f"  python manage.py {command}" for command in commands]
            return "\n".join(["The queue tables are not up to date. Run this first:", *lines])
    return ""


def _commands(using: str) -> list[str]:
    # All of this database's queue tables: the reaper looks after each of them.
    wanted = [model for model in _models() if router.allow_migrate_model(using, model)]
    labels = {model._meta.app_label for model in wanted} | {Worker._meta.app_label}
    executor = MigrationExecutor(connections[using])
    commands = []
    if unmade := _unmade(wanted, executor.loader, using):
        commands.append(f"makemigrations {' '.join(sorted(unmade))}")
    targets = [key for key in executor.loader.graph.leaf_nodes() if key[0] in labels]
    if unmade or executor.migration_plan(targets):
        commands.append("migrate" if using == "default" else f"migrate --database {using}")
    return commands


def _models() -> list[type[models.Model]]:
    found = (model for model in apps.get_models() if issubclass(model, Job | ArchivedJob))
    return [model for model in found if model._meta.managed and not model._meta.proxy]


def _unmade(wanted: list[type[models.Model]], loader: MigrationLoader, using: str) -> set[str]:
    """The apps whose migrations know nothing of a table, or of a column."""
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
