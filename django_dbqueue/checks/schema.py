"""Which tables and columns the queues of a database lack, and the commands that make them."""

from collections.abc import Container, Iterable
from typing import Any

from django.apps import apps
from django.db import DEFAULT_DB_ALIAS, connections, router
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.utils.translation import gettext as _

from ..models import ArchivedJob, Job, Worker

OURS = {Worker._meta.app_label}


def missing_migrations(aliases: Iterable[str], receipts: Iterable[str] = ()) -> str:
    """What to run where migrations are to be made or applied first, or ''.

    ``aliases`` hold queue tables; jobs of others write to ``receipts`` exactly once.
    """
    commands, served = [], set(aliases)
    models = [model for model in apps.get_models() if issubclass(model, Job | ArchivedJob)]
    models = [model for model in models if model._meta.managed and not model._meta.proxy]
    for using in sorted(served):
        # All of this database's queue tables: the reaper looks after each of them.
        wanted = [model for model in models if router.allow_migrate_model(using, model)]
        unmade = _unmade(wanted, using)
        if unmade:
            commands.append(f"makemigrations {' '.join(sorted(unmade))}")
        if unmade or not is_migrated(using, {model._meta.app_label for model in wanted} | OURS):
            where = "" if using == DEFAULT_DB_ALIAS else f" --database {using}"
            commands.append(f"migrate{where}")
    commands += [
        f"migrate dbqueue --database {using}"
        for using in sorted(set(receipts) - served)
        if not is_migrated(using, OURS)
    ]
    if not commands:
        return ""
    lines = dict.fromkeys(f"  python manage.py {command}" for command in commands)
    return "\n".join([_("The queue tables are not up to date. Run this first:"), *lines])


def is_migrated(using: str, labels: Container[str]) -> bool:
    """Whether these apps' migrations count as applied."""
    executor = MigrationExecutor(connections[using])
    targets = [key for key in executor.loader.graph.leaf_nodes() if key[0] in labels]
    return not executor.migration_plan(targets)


def _unmade(wanted: Iterable[type[Job | ArchivedJob]], using: str) -> set[str]:
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
