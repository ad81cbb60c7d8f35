"""What a schedule enqueues: a kind of target says how it is checked, and how one job is made."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from django.apps import apps
from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.core.validators import ProhibitNullCharactersValidator
from django.db import connections, models, router
from django.db.models.signals import pre_save
from django.db.utils import Error
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy

from ..dialects import dialect_of
from ..exceptions import shown
from ..fields import InstantField
from ..guard import capture, message_of
from ..lifecycle.enqueue import CHECKS, prepare
from ..lifecycle.table import LIFECYCLE_COLUMNS
from ..models import Job
from ..states import Status
from .problems import wrong

if TYPE_CHECKING:
    from .models import Schedule

NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")  # as JSON writes it
WAITING = (Status.READY, Status.DELAYED)


class State(Enum):
    """Of a job, as an overlap is judged; one that is buried waits for a person, and has ended."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True)
class Looked:
    """What became of a job, for people; the model of its row, if it has one, its key there, where
    that is not the one that ``enqueue`` gave, and its database, where the schedule is on another
    one."""

    words: str
    model: type[models.Model] | None = None
    key: str = ""
    alias: str = ""


class Target:
    """One kind of target. Its methods raise ``ValidationError`` for what is wrong with a schedule,
    and may raise anything else: the schedule keeps the message, and is tried again later.
    """

    label = ""
    # What an overlap may do, besides "allow": others cannot look at their jobs.
    overlaps: frozenset[str] = frozenset()
    # Whether all that it enqueues is undone with the transaction.
    rolls_back = False
    # Whether ``clean`` knows which priorities there are; else they are those of queue tables.
    judges_priority = False

    def clean(self, schedule: "Schedule", using: str) -> None:
        """Refuse a target that there is not, or arguments that it does not take."""
        raise NotImplementedError

    def enqueue(self, schedule: "Schedule", using: str) -> str:
        """Enqueue one job in the open transaction on ``using``; its key, at most 64 characters."""
        raise NotImplementedError

    def state(self, target: str, key: str, using: str) -> State:
        """Of a job of ours; for overlaps."""
        return State.ENDED

    def cancel(self, target: str, key: str, using: str) -> bool:
        """Take a waiting job out; whether it was still waiting."""
        return False

    def look(self, target: str, keys: list[str], using: str) -> dict[str, Looked] | None:
        """What the admin says of jobs of ours, by key; None where that cannot be told."""
        return None

    def check_database(self, target: str, using: str) -> None:
        """Refuse a database on which nobody looks for its jobs."""


class RowNeeded(Exception):
    """What a key is made of is in a row, which is read at each tick and not before."""


class Unread:
    """A row that nobody has read: a system check may have no database."""

    def __getattr__(self, name: str) -> Any:
        raise RowNeeded

    def __str__(self) -> str:
        raise RowNeeded


class QueueTable(Target):
    """``target`` is a queue table's label, ``arguments`` are columns of its job."""

    label = "queue table"
    overlaps = frozenset({"skip", "replace"})
    rolls_back = True

    def clean(self, schedule: "Schedule", using: str) -> None:
        given = self._columns(schedule)
        job = table_model(schedule.target)(**given)
        # Whether a foreign key leads anywhere, the database says at each tick.
        fields, unread = job._meta.concrete_fields, cast(Any, Unread())
        keys = [field for field in fields if isinstance(field, models.ForeignKey)]
        empty = [field for field in fields if getattr(job, field.attname) is None]
        for field in keys:
            if field not in empty:
                field.set_cached_value(job, unread)
        try:
            _check(job, using)
            if not _fills_in(type(job)):
                _refuse_null([one for one in empty if one in keys or one.attname in given])
            # Nor is a default judged, which may be no value that a form takes.
            defaults = [one for one in fields if one.has_default() and one.attname not in given]
            left_out = {field.name for field in (*keys, *defaults)}
            # Nor what the database works out, such as when it expires.
            left_out.update(job.expressions())
            job.clean_fields(exclude=LIFECYCLE_COLUMNS | {"id"} | left_out)
        except ValidationError as error:
            raise _of_schedule(error) from None

    def enqueue(self, schedule: "Schedule", using: str) -> str:
        model: Any = table_model(schedule.target)
        job, _ = model.objects.using(using).enqueue(**self._columns(schedule))
        return str(job.pk)

    def state(self, target: str, key: str, using: str) -> State:
        rows: Any = table_model(target)._base_manager.using(using)
        status = rows.filter(pk=key).values_list("status", flat=True).first()
        if status == Status.CLAIMED:
            return State.RUNNING
        return State.WAITING if status in WAITING else State.ENDED

    def cancel(self, target: str, key: str, using: str) -> bool:
        rows: Any = table_model(target).objects.using(using)
        return bool(rows.filter(pk=key, status__in=WAITING).cancel().changed)

    def look(self, target: str, keys: list[str], using: str) -> dict[str, Looked]:
        model = table_model(target)
        rows: Any = model._base_manager.using(using).filter(pk__in=keys)
        jobs = rows.only("status", "dequeued_time", "expires_at")
        return {str(job.pk): Looked(job.state, model) for job in jobs}

    def check_database(self, target: str, using: str) -> None:
        model = table_model(target)
        there = model()
        there._state.db = using  # where a router has nothing to say, it stays there
        known = model.written_databases()
        if using in known or router.db_for_write(model, instance=there) == using:
            return
        text = gettext_lazy(
            "target: workers look for jobs of %(table)s on %(known)s, not on %(given)s: add the "
            "schedule there, by manage.py dbqueue schedule add --database"
        )
        names = {"known": ", ".join(known), "given": using}
        raise wrong("target", text, table=model._meta.label, **names)

    def _columns(self, schedule: "Schedule") -> dict[str, Any]:
        """As ``enqueue`` takes them; of a foreign key, the key."""
        given = schedule.arguments
        if not isinstance(given, dict):
            text = gettext_lazy("arguments must be a dict, not %(given)s")
            raise wrong("arguments", text, given=shown(given))
        meta, found = table_model(schedule.target)._meta, dict[str, Any]()
        for name, value in given.items():
            found.update([_column(meta, name, value)])
        if schedule.queue:
            found["queue"] = schedule.queue
        if schedule.priority is not None:
            found["priority"] = schedule.priority
        return found


def table_model(label: str) -> type[Job]:
    """``ValidationError`` where no queue table has this label."""
    try:
        model = apps.get_model(label)
    except (LookupError, ValueError):
        text = gettext_lazy("target: no model %(given)s is installed")
        raise wrong("target", text, given=shown(label)) from None
    if not issubclass(model, Job):
        raise wrong("target", gettext_lazy("target: %(given)s is no queue table"), given=label)
    return model


def _column(meta: Any, name: str, value: Any) -> tuple[str, Any]:
    try:
        field = meta.get_field(name)  # Django knows a foreign key by its column, too
        is_column = field.concrete and not field.many_to_many and not field.primary_key
    except FieldDoesNotExist:
        is_column = False
    if not is_column or name in LIFECYCLE_COLUMNS:
        text = gettext_lazy("arguments: %(name)s is no column of %(table)s that may be given")
        raise wrong("arguments", text, name=shown(name), table=meta.label)
    try:
        found = field.to_python(value)
        if isinstance(field, InstantField):
            field.get_prep_value(found)
    except (ValidationError, ValueError) as error:
        problem = error.messages[0] if isinstance(error, ValidationError) else error
        raise ValidationError({"arguments": f"arguments: {name}: {problem}"}) from None
    return field.attname, found


def _fills_in(model: type[Job]) -> bool:
    """Whether code of the project's may give a new job what was not given."""
    return model.save is not Job.save or pre_save.has_listeners(model)


def _refuse_null(empty: Iterable[Any]) -> None:
    """The columns that are never NULL."""
    refused = [field for field in empty if not field.null]
    if refused:
        raise ValidationError({one.name: one.error_messages["null"] for one in refused})


def check_json(arguments: Any) -> None:
    """``ValidationError`` where not every database has such a value."""
    try:
        text = json.dumps(arguments, allow_nan=False, ensure_ascii=False)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ValidationError({"arguments": f"arguments: {message_of(error)}"}) from None
    if NUL.search(text):
        problem = ProhibitNullCharactersValidator.message
        raise wrong("arguments", format_lazy("arguments: {problem}", problem=problem))


def _check(job: Job, using: str) -> None:
    with capture() as outcome:  # the project's code says which keys it has
        prepare(job)
    error = outcome.error
    if isinstance(error, RowNeeded) or (error and isinstance(error.__cause__, RowNeeded)):
        for name, check in {**CHECKS, **job.checked_columns}.items():
            check(getattr(job, name))
    elif isinstance(error, ValidationError):
        raise error
    elif isinstance(error, Error) and dialect_of(connections[using]).error_kind(error):
        raise error  # another try may mend it
    elif error is not None:
        problem = f"arguments: {type(error).__name__}: {message_of(error)}"
        raise ValidationError({"arguments": problem})


def _of_schedule(error: ValidationError) -> ValidationError:
    """What is wrong with a job, as said of the schedule's own fields."""
    problems = {"queue": [], "priority": [], "arguments": []}  # type: dict[str, list[str]]
    for name, messages in error.message_dict.items():
        own = name if name in problems else "arguments"
        prefix = "" if own == name else f"{name}: "
        problems[own] += [f"{prefix}{one}" for one in messages]
    return ValidationError({name: found for name, found in problems.items() if found})


#: By the name that a schedule stores. An app adds its own kind in ``ready()``.
TARGETS: dict[str, Target] = {"table": QueueTable()}
