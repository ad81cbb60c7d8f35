"""System checks: what would make a queue lose, hide or slow down jobs."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.checks import Warning as Caution
from django.core.exceptions import FieldDoesNotExist
from django.db import connections, models, router
from django.db.backends.base.base import BaseDatabaseWrapper

from ..conf import conf, misspelt_variables, unknown_names, wrong_values
from ..dialects import anyone_notifies, dialect_of
from ..fields import NameField
from ..lifecycle.table import LIFECYCLE_COLUMNS
from ..lifecycle.versions import MIN_VERSION
from ..models import DedupConstraint, HotIndex, Job, JobManager, KeyedJob
from .exactly_once import check_exactly_once, check_receipts
from .policy import check_place_of_archive, check_policy
from .queue_options import check_queue_options
from .servers import HINTS, UPKEEP

Model = type[Job]

# Columns of ours that a subclass may declare again, as long as they stay what they are.
LOOSE: dict[str, Any] = {"queue": NameField, "priority": models.BigIntegerField}
FIXED = LIFECYCLE_COLUMNS | {"created_at", "expires_at", "time_to_run"}
# What a subclass is meant to define, or may well extend.
FREE = {
    *("run", "save", "refresh_from_db", "state", "last_error", "idempotency_key"),
    *("written_databases", "exactly_once"),
}
OURS = {
    name
    for part in Job.__mro__[: Job.__mro__.index(models.Model)]
    for name, value in vars(part).items()
    if not name.startswith("__")
    and (inspect.isfunction(value) or isinstance(value, classmethod | property))
} | {
    *("claim_owner", "has_expired", "restart_clock", "in_exactly_once_run", "ends_at_commit"),
    *("own_end", "claim_policy"),
}
RESERVED = OURS - FREE


@register(Tags.models)
def check_tables(app_configs: Sequence[Any] | None = None, **_: Any) -> list[CheckMessage]:
    """Judge the declaration of every queue table."""
    configs = apps.get_app_configs() if app_configs is None else app_configs
    models_of = (config.get_models() for config in configs)
    return [m for found in models_of for model in _tables(found) for m in check_table(model)]


@register()
def check_settings(**_: Any) -> list[CheckMessage]:
    """Judge what ``settings.DBQUEUE`` says."""
    hint = "Give it such a value, or leave it out."
    wrong = [Error(f"{problem}.", hint=hint, id="dbqueue.E015") for problem in wrong_values()]
    if wrong:
        return [*wrong]
    found: list[CheckMessage] = [
        Error(
            f"DBQUEUE[{name!r}] is not a setting.",
            hint=f"Did you mean {known!r}?" if known else "Remove it.",
            id="dbqueue.E008",
        )
        for name, known in unknown_names().items()
    ]
    found += [
        Caution(
            f"django-dbqueue reads no environment variable {name}.",
            hint=f"Did you mean {known}?",
            id="dbqueue.W005",
        )
        for name, known in misspelt_variables().items()
    ]
    found += check_queue_options()
    is_wanted = conf["NOTIFY"] and conf.source("NOTIFY") != "default"
    if is_wanted and not anyone_notifies():
        found.append(
            Caution(
                "The setting NOTIFY has no effect: none of the databases notifies.",
                hint="Use PostgreSQL with psycopg 3, or remove the setting.",
                id="dbqueue.W003",
            )
        )
    return found


@register(Tags.database)
def check_databases(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """Judge the databases that hold queue tables; asks them, so only where they are named."""
    found: list[CheckMessage] = []
    for alias in databases or ():
        models_there = [
            model
            for model in _tables(apps.get_models())
            if router.allow_migrate_model(alias, model)
        ]
        if models_there:
            names = [model._meta.db_table for model in models_there]
            found += _check_database(connections[alias], names)
        for model in models_there:
            found += check_place_of_archive(model, alias)
        found += check_receipts(connections[alias])
    return found


def check_table(model: Model) -> list[CheckMessage]:
    """Judge one queue table, without asking its database."""
    parts: tuple[Callable[[Model], Iterable[CheckMessage]], ...] = (
        _check_meta,
        _check_columns,
        _check_min_version,
        _check_attributes,
        _check_parents_and_key,
        check_policy,
        check_exactly_once,
    )
    return [message for part in parts for message in part(model)]


def _tables(found: Iterable[type[models.Model]]) -> Iterator[Model]:
    for model in found:
        if issubclass(model, Job) and not model._meta.proxy:
            yield model


def _check_meta(model: Model) -> Iterator[CheckMessage]:
    if model._meta.parents:
        return  # _check_parents_and_key says so
    kept = [(i.fields, i.where) for i in model._meta.indexes if isinstance(i, HotIndex)]
    base = KeyedJob if model.takes_keys else Job
    wanted = [(i.fields, i.where) for i in base._meta.indexes if isinstance(i, HotIndex)]
    unique = any(isinstance(c, DedupConstraint) for c in model._meta.constraints)
    if unique and all(index in kept for index in wanted):
        return
    lost = "constraint" if all(index in kept for index in wanted) else "indexes"
    yield Error(
        f"Its Meta has lost the {lost} of a queue table.",
        hint=(
            f"Write `class Meta({base.__name__}.Meta):`, and extend lists as in "
            f"`indexes = [*{base.__name__}.Meta.indexes, ...]`; then run makemigrations."
        ),
        obj=model,
        id="dbqueue.E001",
    )


def _check_columns(model: Model) -> Iterator[CheckMessage]:
    for name in sorted(FIXED | set(LOOSE)):
        ours: Any = Job._meta.get_field(name)
        try:
            field: Any = model._meta.get_field(name)
        except FieldDoesNotExist:
            is_ours = False
        else:
            is_ours = (
                isinstance(field, LOOSE[name]) and field.column == name and not field.null
                if name in LOOSE
                else field.deconstruct()[1:] == ours.deconstruct()[1:]
            )
        if not is_ours:
            yield Error(
                f"The column {name!r} belongs to the lifecycle and was redefined.",
                hint="Give your own column another name.",
                obj=model,
                id="dbqueue.E002",
            )


def _check_min_version(model: Model) -> Iterator[CheckMessage]:
    fields = [field for field in model._meta.concrete_fields if field.name == MIN_VERSION]
    if fields and not isinstance(fields[0], models.IntegerField):
        yield Error(
            f"The column {MIN_VERSION!r} says which code a job needs, and is no IntegerField.",
            hint="Make it a PositiveBigIntegerField(default=0), or give it another name.",
            obj=model,
            id="dbqueue.E020",
        )


def _check_attributes(model: Model) -> Iterator[CheckMessage]:
    above = model.__mro__[: model.__mro__.index(Job)]
    theirs = [part for part in above if not part.__module__.startswith("django_dbqueue.")]
    defined = {name for part in theirs for name in vars(part)}
    fields = {_attribute_of(field) for field in model._meta.get_fields()}
    for name in sorted((RESERVED & defined) | (OURS & fields)):
        yield Error(
            f"{name!r} is a verb or an attribute of every job and was redefined.",
            hint="Give it another name; run() and run_batch() are yours to define.",
            obj=model,
            id="dbqueue.E003",
        )
    manager = model._default_manager
    if not isinstance(manager, JobManager):
        yield Error(
            f"Its default manager is a {type(manager).__name__}, not a JobManager.",
            hint=(
                "Derive it from JobManager (`JobManager.from_queryset(YourQuerySet)` for a "
                "subclass of JobQuerySet), or declare `objects = JobManager()` first."
            ),
            obj=model,
            id="dbqueue.E004",
        )


def _attribute_of(field: Any) -> Any:
    """By which a job has it: what refers to jobs goes by another name in their queries."""
    return field.name if field.concrete or not field.auto_created else field.get_accessor_name()


def _check_parents_and_key(model: Model) -> Iterator[CheckMessage]:
    for parent in model._meta.parents:
        yield Error(
            f"It inherits from {parent._meta.label}, which has a table of its own.",
            hint="Make the parent abstract, or refer to it by a ForeignKey.",
            obj=model,
            id="dbqueue.E005",
        )
    if model._meta.parents:
        return
    if len(model._meta.pk_fields) > 1:
        yield Error(
            "A queue table cannot have a composite primary key.",
            hint="Leave the primary key out, and add a UniqueConstraint.",
            obj=model,
            id="dbqueue.E006",
        )
    elif model._meta.pk.name != "id":
        yield Error(
            f"Its primary key is the field {model._meta.pk.name!r}, not 'id'.",
            hint="Name the field id; its column keeps its name with db_column.",
            obj=model,
            id="dbqueue.E006",
        )
    elif not isinstance(model._meta.pk, models.AutoField | models.IntegerField):
        yield Caution(
            f"Its primary key, a {type(model._meta.pk).__name__}, does not grow with time.",
            hint="Jobs of the same priority are not claimed in the order in which they came. "
            "Leave the primary key out, and keep the other key in a column of its own.",
            obj=model,
            id="dbqueue.W001",
        )


def _check_database(connection: BaseDatabaseWrapper, tables: list[str]) -> Iterator[CheckMessage]:
    dialect, name = dialect_of(connection), f"DATABASES[{connection.alias!r}]"
    if not connection.settings_dict["AUTOCOMMIT"]:
        yield Error(
            f"{name}: AUTOCOMMIT is off; a claim would belong to nobody until a commit.",
            hint="Remove the setting AUTOCOMMIT.",
            id="dbqueue.E011",
        )
    if problem := dialect.setup_problem():
        yield Error(f"{name}: {problem}.", hint=dialect.setup_hint, id="dbqueue.E012")
    with connection.cursor() as cursor:
        for table in tables:
            if problem := dialect.engine_problem(cursor, table):
                yield Error(
                    f"{name}: {table}: {problem}.",
                    hint=f"ALTER TABLE {table} ENGINE = InnoDB",
                    id="dbqueue.E010",
                )
            quoted = connection.ops.quote_name(table)
            if problem := dialect.upkeep_problem(cursor, quoted):
                yield Caution(f"{name}: {problem}.", hint=UPKEEP.format(quoted), id="dbqueue.W013")
        if problem := dialect.durability_problem(cursor):
            yield Caution(
                f"{name}: {problem}: the last commits, and their jobs, may be lost in a crash.",
                hint=(
                    "Accept it by adding 'dbqueue.W002' to SILENCED_SYSTEM_CHECKS, "
                    "or have every commit written to the disk."
                ),
                id="dbqueue.W002",
            )
        for check_id, problem in dialect.cautions(cursor):
            yield Caution(f"{name}: {problem}.", hint=HINTS[check_id], id=check_id)
