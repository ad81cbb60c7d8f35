"""System checks of ``class Policy``: options that there are, values that make sense."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as Caution
from django.core.exceptions import ImproperlyConfigured
from django.db import models, router
from django.db.models import NOT_PROVIDED

from ..conf import nearest
from ..guard import capture
from ..lifecycle.policy import OPTIONS, declared_options, policy_of, problems
from ..lifecycle.queue_options import named_queues, policy_of_queue, says_anything
from ..models import Job
from ..models.columns import JobColumns

Model = type[Job]

KEY_OPTIONS = ("concurrency_key", "concurrency_limit", "key_order", "when_head_fails")
DROPPED = {"block": "wait until somebody kicks or cancels it", "fail": "are buried, too"}
NOT_THEIRS = {field.name for field in JobColumns._meta.get_fields()} | {"id"}


def check_policy(model: Model) -> Iterator[CheckMessage]:
    """Judge what a queue table's policy says."""
    for name in sorted(set(declared_options(model)) - OPTIONS):
        known = nearest(name, set(OPTIONS))
        yield Error(
            f"Policy.{name} is not an option.",
            hint=f"Did you mean {known!r}?" if known else f"Known: {', '.join(sorted(OPTIONS))}.",
            obj=model,
            id="dbqueue.E007",
        )
    for name, problem in problems(model).items():
        yield Error(
            f"Policy.{name} makes no sense: {problem}.",
            hint="See the table of options in docs/reference.md.",
            obj=model,
            id="dbqueue.E014",
        )
    own = {field.name for field in model._meta.concrete_fields} - NOT_THEIRS
    for name in policy_of(model).results:
        if name not in own:
            known = nearest(name, own)
            yield Error(
                f"Policy.results: {name!r} is no column of the table's own.",
                hint=f"Did you mean {known!r}?" if known else "Name a column that run() fills in.",
                obj=model,
                id="dbqueue.E017",
            )
    yield from _check_archive(model)
    yield from _check_references(model)
    yield from _check_keys(model)


def _check_keys(model: Model) -> Iterator[CheckMessage]:
    try:
        given = [name for name in KEY_OPTIONS if says_anything(model, name)]
    except ImproperlyConfigured:
        return  # dbqueue.E015 tells what is wrong with QUEUES
    if given and not model.takes_keys:
        yield Error(
            f"{', '.join(given)}: this table has no columns for concurrency keys.",
            hint="Derive it from KeyedJob, and its Meta from KeyedJob.Meta; then makemigrations.",
            obj=model,
            id="dbqueue.E019",
        )
    elif model.takes_keys and policy_of(model).archive is None:
        yield from _check_drops(model)


def _check_drops(model: Model) -> Iterator[CheckMessage]:
    """Of jobs in order: one that is dropped stays in the table as a buried head of its key."""
    named = named_queues(model)
    policies = {queue: policy_of_queue(model, queue) for queue in ("", *named)}
    found = {
        queue: policy.when_head_fails
        for queue, policy in policies.items()
        if policy.max_length is not None
        and (policy.when_full, policy.key_order) == ("drop_oldest", "fifo")
        and policy.when_head_fails != "skip"
    }
    for rule in sorted({*found.values()}):
        rest = "all others" if named else "all"
        queues = ", ".join(queue or rest for queue in found if found[queue] == rule)
        yield Caution(
            f"when_full = 'drop_oldest' with key_order = 'fifo' (queues: {queues}): the job whose "
            f"turn it is may be dropped, which buries it; with when_head_fails = {rule!r} the "
            f"others of its key {DROPPED[rule]}.",
            hint=(
                "Give the table an archive, which dropped jobs move to, or take when_head_fails = "
                "'skip', or when_full = 'reject' or 'wait'."
            ),
            obj=model,
            id="dbqueue.W017",
        )


def _check_archive(model: Model) -> Iterator[CheckMessage]:
    name = policy_of(model).archive
    if name is None:
        return
    problem, unique = "", list[str]()
    try:
        archive = model._meta.apps.get_model(name)
    except (LookupError, ValueError):
        problem = "there is no such model"
    else:
        there, here = _written(archive), _written(model)
        if lacks := here - there:
            problem = f"it lacks the columns {', '.join(sorted(lacks))}"
        elif extra := there - here:
            problem = f"it has columns that the queue table lacks: {', '.join(sorted(extra))}"
        unique = sorted(_unique(archive))
    if problem:
        yield Error(
            f"Policy.archive = {name!r}: {problem}.",
            hint=(
                'Name a model "app_label.Model" that has the same columns: '
                "`class ArchivedX(ArchivedJob, XFields)`, with X's own columns in XFields."
            ),
            obj=model,
            id="dbqueue.E009",
        )
    if unique:
        yield Error(
            f"Policy.archive = {name!r}: unique there: {', '.join(unique)}. A second job with what "
            "is archived already keeps the others from being archived, and cannot be cancelled.",
            hint=(
                "Let the archive have it without unique=True (with db_index=True to look for it), "
                "and put a constraint into the Meta of the queue table alone; then makemigrations."
            ),
            obj=model,
            id="dbqueue.E022",
        )


def _check_references(model: Model) -> Iterator[CheckMessage]:
    for relation in _relations_to_what_leaves(model):
        if isinstance(relation, models.ManyToOneRel) and _holds_rows(relation):
            yield Caution(
                f"{relation.related_model._meta.label}.{relation.field.name} refers to its jobs by "
                "a foreign key in the database, where on_delete is not known: a done job that is "
                "referred to cannot leave the table, and keeps others there.",
                hint=(
                    "Give that field db_constraint=False and on_delete=DO_NOTHING (on Django 6.1 "
                    "on_delete=DB_CASCADE does, too), then makemigrations; or keep the job's id in "
                    "a plain column."
                ),
                obj=model,
                id="dbqueue.W016",
            )


def _relations_to_what_leaves(model: Model) -> Iterator[Any]:
    """To jobs that are archived or pruned, and to archived ones that are pruned."""
    policy = policy_of(model)
    if policy.archive is not None or policy.prune_after is not None:
        yield from model._meta.get_fields(include_hidden=True)
    if policy.archive is not None and policy.prune_after is not None:
        with suppress(LookupError, ValueError):  # _check_archive says so
            archive = model._meta.apps.get_model(policy.archive)
            yield from archive._meta.get_fields(include_hidden=True)


def _holds_rows(relation: Any) -> bool:
    """Whether the database refuses to delete what is referred to: rows go by SQL, and Django's
    ``on_delete`` is not asked."""
    is_by_database = hasattr(relation.on_delete, "on_delete_sql")  # Django 6.1
    is_ours = relation.related_model._meta.managed
    return bool(is_ours and relation.field.db_constraint and not is_by_database)


def check_place_of_archive(model: Model, alias: str) -> Iterator[CheckMessage]:
    """On a database whose tables it may have: jobs are moved within it."""
    name, places = policy_of(model).archive, list[str]()
    with capture():  # a router may need a job to tell
        places = model.written_databases()
    if name is None or alias not in places:
        return
    try:
        archive = model._meta.apps.get_model(name)
    except (LookupError, ValueError):
        return  # _check_archive says so
    if not router.allow_migrate_model(alias, archive):
        yield Error(
            f"Policy.archive = {name!r}: routers keep it away from {alias!r}, where its jobs are: "
            "none of them can be archived or cancelled.",
            hint=f"Let allow_migrate() pass {name} there; then migrate --database {alias}.",
            obj=model,
            id="dbqueue.E009",
        )


def _written(model: type[models.Model]) -> set[str]:
    return {str(f.column) for f in model._meta.concrete_fields if not f.generated}


def _unique(archive: type[models.Model]) -> Iterator[str]:
    """What no two archived jobs may have in common, except what each job makes for itself."""
    meta: Any = archive._meta
    together = list[tuple[str, Iterable[str]]]()
    for field in meta.concrete_fields:
        if field.unique and not field.primary_key:
            together.append((field.name, [field.name]))
    for names in meta.unique_together:
        together.append((" with ".join(names), names))
    for constraint in meta.constraints:
        if isinstance(constraint, models.UniqueConstraint):
            together.append((constraint.name, constraint.fields))
    known = meta._forward_fields_map  # a name that is none of them is Django's to tell
    for name, columns in together:
        if not any(_is_its_own(known[column]) for column in columns if column in known):
            yield name


def _is_its_own(field: Any) -> bool:
    """Whether each job has a value of its own here: its key, or a default that is worked out."""
    makes_one = field.has_default() and callable(field.default)
    return bool(field.primary_key or makes_one or field.db_default is not NOT_PROVIDED)
