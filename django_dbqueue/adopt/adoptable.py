"""What has to hold before a table becomes a queue table."""

from typing import Any, NoReturn, TypeAlias

from django.apps import apps
from django.db import models
from django.db.migrations import AddField
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ProjectState
from django.utils.translation import gettext as _

from ..checks.tables import LOOSE, check_table
from ..conf import nearest
from ..lifecycle.table import LIFECYCLE_COLUMNS
from ..models import Job, KeyedJob
from ..states import Status

Model = type[models.Model]
Column: TypeAlias = "models.Field[Any, Any]"


class CannotAdopt(ValueError):
    """Why a table cannot become a queue table, and what to do next."""


def queue_table(label: str) -> type[Job]:
    """The model that APP.MODEL names, or a model's name alone."""
    wanted = label.lower()
    known = {model._meta.label_lower: model for model in apps.get_models()}
    found = [m for m in known.values() if wanted in {m._meta.label_lower, m._meta.model_name}]
    if len(found) > 1:
        text, labels = _("%(name)s: which one? %(known)s"), [m._meta.label for m in found]
        raise CannotAdopt(text % {"name": label, "known": ", ".join(sorted(labels))})
    if not found:
        near = known.get(nearest(wanted, set(known)))
        text = _("No installed model is called %(name)s. Give it as APP.MODEL.")
        if near:
            text = _("No installed model is called %(name)s. Did you mean %(near)s?")
        raise CannotAdopt(text % {"name": repr(label), "near": near and near._meta.label})
    [model] = found
    name, parent = model._meta.label, model._meta.concrete_model
    if model._meta.proxy and parent is not None:
        text = _("%(name)s is a proxy and has no table; adopt %(parent)s.")
        raise CannotAdopt(text % {"name": name, "parent": parent._meta.label})
    if not issubclass(model, Job):
        text = _(
            "%(name)s is no queue table yet. Write `class %(class)s(Job)` with "
            "`class Meta(Job.Meta)` and a `run()`, then run this again."
        )
        raise CannotAdopt(text % {"name": name, "class": model.__name__})
    if not model._meta.managed:
        text = _(
            "%(name)s has managed = False: no migration changes its table. Let Django manage it, "
            "then run this again."
        )
        raise CannotAdopt(text % {"name": name})
    return model


def newest(model: Model, loader: MigrationLoader) -> str:
    """The name of the app's newest migration."""
    app = model._meta.app_label
    leaves = sorted(name for _app, name in loader.graph.leaf_nodes(app))
    if not leaves:
        _refuse_new(model)
    if len(leaves) > 1:
        text = _(
            "The migrations of %(app)s end in %(one)s and %(other)s. "
            "Run `manage.py makemigrations --merge %(app)s` first."
        )
        one, other = ", ".join(leaves[:-1]), leaves[-1]
        raise CannotAdopt(text % {"app": app, "one": one, "other": other})
    return str(leaves[0])


def as_migrated(model: Model, state: ProjectState, loader: MigrationLoader) -> Model:
    """The model as the migrations know it: an ordinary table."""
    app, name = model._meta.app_label, model.__name__
    if (app, name.lower()) not in state.models:
        _refuse_new(model)
    before: Model = state.apps.get_model(app, name)
    if not {field.name for field in before._meta.fields} >= LIFECYCLE_COLUMNS:
        return before
    if unsafe := _migration_that_runs_old_rows(model, loader):
        text = _(
            "%(migration)s makes %(name)s a queue table already, with its old rows ready: they "
            "will run. If it is applied nowhere yet, delete that file and run this again. Else run "
            "`%(class)s.objects.ready().bury()` before a worker starts."
        )
        names = {"migration": f"{app}.{unsafe}", "name": model._meta.label, "class": name}
        raise CannotAdopt(text % names)
    text = _("%(name)s is a queue table in its migrations already: nothing to do.")
    raise CannotAdopt(text % {"name": model._meta.label})


def _refuse_new(model: Model) -> NoReturn:
    app, name = model._meta.app_label, model._meta.label
    text = _(
        "No migration creates %(name)s. A new table needs no adoption: run "
        "`manage.py makemigrations %(app)s`. If there is a table without migrations, make it a "
        "models.Model again, run `manage.py makemigrations %(app)s` and "
        "`manage.py migrate --fake-initial %(app)s`, then make it a Job and run this again."
    )
    raise CannotAdopt(text % {"name": name, "app": app})


def _migration_that_runs_old_rows(model: Model, loader: MigrationLoader) -> str:
    """The one that adds the status as ready to a table that exists, or ''."""
    for (app, name), migration in loader.disk_migrations.items():
        for step in migration.operations if app == model._meta.app_label else ():
            if not isinstance(step, AddField) or step.model_name_lower != model._meta.model_name:
                continue
            if step.name == "status" and step.field.default == Status.READY:
                return str(name)
    return ""


def refuse_clashes(model: type[Job], before: Model) -> None:
    """Columns whose contents would be taken for ours."""
    kind_of_table = KeyedJob if model.takes_keys else Job
    ours, clashes = {field.name for field in kind_of_table._meta.fields}, []
    for field in before._meta.get_fields():
        names = {field.name, str(getattr(field, "column", "")).lower()}
        if not names & ours or not isinstance(field, models.Field):
            continue
        # An old column may already be what a queue table may declare again.
        kind = LOOSE.get(field.name)
        if kind is None or not isinstance(field, kind) or field.null:
            clashes.append(f"{field.name} ({type(field).__name__})")
    if not clashes:
        return
    app, base = model._meta.app_label, model._meta.label
    text = _(
        "%(name)s has columns of its own whose names a queue table needs: %(columns)s. "
        "Rename them first, in a migration of their own: make %(name)s a models.Model again, give "
        "them other names in the code, run `manage.py makemigrations %(app)s` and answer yes to "
        "its questions; then make it a Job and run this again."
    )
    raise CannotAdopt(text % {"name": base, "columns": ", ".join(clashes), "app": app})


def refuse_faults(model: type[Job]) -> None:
    """What the system checks say of it, in time."""
    found = [*model.check(), *check_table(model)]
    faults = [fault for fault in found if fault.is_serious() and not fault.is_silenced()]
    if faults:
        told = "\n".join(f"  {fault.msg} {fault.hint or ''} ({fault.id})" for fault in faults)
        text = _("%(name)s is not sound yet:") % {"name": model._meta.label}
        raise CannotAdopt(f"{text}\n{told}")
