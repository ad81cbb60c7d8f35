"""The migration that turns an existing table into a queue table, its rows done."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from django.apps import apps
from django.core.management.utils import run_formatters
from django.db import DEFAULT_DB_ALIAS
from django.db.migrations import (
    AddConstraint,
    AddField,
    AddIndex,
    AlterField,
    AlterModelOptions,
    Migration,
)
from django.db.migrations.autodetector import MigrationAutodetector
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.questioner import MigrationQuestioner
from django.db.migrations.state import ProjectState
from django.db.migrations.writer import MigrationWriter
from django.utils import timezone
from django.utils.translation import gettext as _

from ..models import DedupConstraint, HotIndex, Job
from ..states import Status
from .adoptable import (
    CannotAdopt,
    Column,
    Model,
    as_migrated,
    newest,
    queue_table,
    refuse_clashes,
    refuse_faults,
)

COMMENT = """\
# {label} becomes a queue table. The rows that it has by then are done, and never run:
# `status` is added as 2 (done), and only then gets its real default.
"""
# Added with these, altered to what the code says. A time that the database works out itself
# would have MariaDB and PostgreSQL copy the whole table, closed to others; a constant does not.
FOR_OLD_ROWS: dict[str, dict[str, Any]] = {
    "status": {"default": Status.DONE.value},
    "created_at": {"default": timezone.now},
}


@dataclass(frozen=True)
class Adoption:
    """A migration that is not written yet, and the changes that it leaves to ``makemigrations``."""

    model: type[Job]
    migration: Migration
    left: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        return Path(MigrationWriter(self.migration).path)

    def text(self) -> str:
        """The migration as a Python file."""
        head, _end, rest = MigrationWriter(self.migration).as_string().partition("\n")
        return f"{head}\n{COMMENT.format(label=self.model._meta.label)}{rest}"

    def write(self) -> Path:
        """Write the file, never over another one; its path."""
        try:
            with self.path.open("x", encoding="utf-8") as file:
                file.write(self.text())
        except OSError as error:
            text = _("The migration cannot be written: %(why)s")
            raise CannotAdopt(text % {"why": error}) from error
        run_formatters([str(self.path)])
        return self.path

    def summary(self) -> list[str]:
        """What the migration does, what it means for rows old and new, and what comes next."""
        app, places = self.model._meta.app_label, self.model.written_databases()
        databases = ["" if one == DEFAULT_DB_ALIAS else f" --database {one}" for one in places]
        rest = _("Not in it; for these run `manage.py makemigrations %(app)s` afterwards:")
        old_rows = _(
            "Rows that the table has when this is applied are done: they never run. They have no\n"
            "finished_at, so they are never archived or pruned. Rows made later are jobs, and run."
        )
        return [
            *(f"  {step.formatted_description()}" for step in self.migration.operations),
            *old_rows.split("\n"),
            *([rest % {"app": app}] if self.left else []),
            *(f"  {change}" for change in self.left),
            _("Next (from then on, old code that still runs cannot insert rows):"),
            *(f"  manage.py migrate {app}{database}" for database in databases),
        ]


def plan(label: str, name: str | None = None) -> Adoption:
    """Work out the migration that adopts APP.MODEL; ``CannotAdopt`` says what to do first."""
    model = queue_table(label)
    app = model._meta.app_label
    loader = MigrationLoader(None, ignore_no_migrations=True)
    leaf = newest(model, loader)
    state = loader.project_state()
    before = as_migrated(model, state, loader)
    refuse_clashes(model, before)
    refuse_faults(model)
    migration = _migration(model, before, leaf, name or f"adopt_{model._meta.model_name}")
    after = migration.mutate_state(state, preserve=False)
    detector = MigrationAutodetector(
        after, ProjectState.from_apps(apps), MigrationQuestioner(specified_apps=set())
    )
    changes = detector.changes(loader.graph, trim_to_apps={app}, convert_apps={app}).get(app, ())
    left = [step.formatted_description() for one in changes for step in one.operations]
    return Adoption(model, migration, tuple(left))


def _migration(model: type[Job], before: Model, leaf: str, name: str) -> Migration:
    app = model._meta.app_label
    if not name.isidentifier():
        text = _("%(name)s is no name for a migration: letters, digits and _ only.")
        raise CannotAdopt(text % {"name": repr(name)})
    number = (MigrationAutodetector.parse_number(leaf) or 0) + 1
    # The operation takes away whatever option it does not name.
    known = before._meta.original_attrs
    options = {k: v for k, v in known.items() if k in AlterModelOptions.ALTER_OPTION_KEYS}
    options |= {"default_permissions": model._meta.default_permissions}
    content = {
        "dependencies": [(app, leaf)],
        "operations": [
            *_columns(model, before),
            *_parts_of_meta(model),
            AlterModelOptions(str(model._meta.model_name), options),
        ],
    }
    kind: type[Migration] = type("Migration", (Migration,), content)
    return kind(f"{number:04}_{name}", app)


def _columns(model: type[Job], before: Model) -> Iterator[Operation]:
    table, there = str(model._meta.model_name), {field.name for field in before._meta.fields}
    for ours in Job._meta.fields:
        if ours.name in there:
            continue
        name = ours.name
        field: Column = cast("Column", model._meta.get_field(name)).clone()
        if name in FOR_OLD_ROWS:
            options = {k: v for k, v in field.deconstruct()[3].items() if k != "db_default"}
            yield AddField(table, name, type(field)(**options | FOR_OLD_ROWS[name]))
            yield AlterField(table, name, field)
        elif field.null or field.has_default() or field.has_db_default():
            yield AddField(table, name, field)
        else:
            # Redeclared without a default: old rows need some value.
            field.default = ours.default
            yield AddField(table, name, field, preserve_default=False)


def _parts_of_meta(model: type[Job]) -> Iterator[Operation]:
    """The constraint before the indexes: SQLite copies the table for it, with all its indexes."""
    table = str(model._meta.model_name)
    for constraint in model._meta.constraints:
        if isinstance(constraint, DedupConstraint):
            yield AddConstraint(table, constraint.clone())
    ours = [(i.fields, i.where) for i in Job._meta.indexes if isinstance(i, HotIndex)]
    for index in model._meta.indexes:
        if isinstance(index, HotIndex) and (index.fields, index.where) in ours:
            yield AddIndex(table, index.clone())
