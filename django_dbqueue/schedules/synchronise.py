"""Writes the schedules that are declared in code to the database, when a worker starts."""

import logging
import socket
from typing import Any

from django.apps import apps
from django.db import connections, router
from django.db.models import Subquery
from django.db.utils import Error

from ..dialects import dialect_of
from ..exceptions import shown
from ..fields import DbNow
from ..guard import capture
from ..models import Job, Worker
from .declared import DECLARED, Declared, timing_text
from .models import SAID, Schedule, db_now
from .problems import problems_of

logger = logging.getLogger("django_dbqueue")

FRESH_SECONDS = 10  # after its start, in which a worker writes what it declares in any case


def is_outdated(using: str, pid: int) -> bool:
    """Whether a worker that started later than this host's with that process lives: what that one
    declares holds, also where an agent of the older one is replaced."""
    living = Worker.objects.using(using).filter(stopped_at=None)
    ours = living.filter(host=socket.gethostname(), pid=pid).order_by("-started_at")
    starts = ours.filter(started_at__lt=DbNow(plus=-FRESH_SECONDS)).values("started_at")
    later = living.filter(started_at__gt=Subquery(starts[:1]), started_at__lte=DbNow())
    return later.exists()


def synchronise(using: str) -> None:
    """On one database: those that are new or have changed are written, and those that are declared
    no more, or on another one, are deleted. A pause stays. One that is wrong is logged and left as
    it is."""
    rows, names = Schedule.objects.using(using), {one.name for one in DECLARED}
    found = {row.name: row for row in rows.filter(name__in=names)}
    kept = set()
    for one in DECLARED:
        alias = using  # until told otherwise: of a wrong one nobody can tell
        with capture() as outcome:
            row, alias = row_of(one)
            if alias == using:
                _write(row, found.get(one.name), using)
        if alias == using:
            kept.add(one.name)
        _tell(f"schedule {one.name} is not written", outcome.error, using)
    dropped = rows.filter(is_declared=True).exclude(name__in=kept).order_by("pk")
    for key, name in list(dropped.values_list("pk", "name")):
        with capture() as outcome:  # rows of the project's may hold on to it
            rows.filter(pk=key, is_declared=True).delete()
        _tell(f"schedule {name}, which is declared no more, is not deleted", outcome.error, using)


def _tell(what: str, error: Exception | None, using: str) -> None:
    """Raises what another try may mend."""
    if isinstance(error, Error) and dialect_of(connections[using]).error_kind(error):
        raise error
    if error is not None:
        logger.error("%s: %s", what, problems_of(error))


def _write(row: Schedule, stored: Schedule | None, using: str) -> None:
    if stored is None:
        row._state.db = using
        row.full_clean(validate_unique=False, validate_constraints=False)
        row.plan(db_now(using))
        Schedule.objects.using(using).bulk_create([row], ignore_conflicts=True)
        return
    columns = [name for name in SAID if _value(row, name) != _value(stored, name)]
    for name in columns:
        setattr(stored, name, getattr(row, name))
    if columns:
        stored.full_clean(validate_unique=False, validate_constraints=False)
        stored.save(using=using)


def _value(row: Schedule, name: str) -> Any:
    return row.start() if name == "starts_at" else getattr(row, name)


def row_of(declared: Declared) -> tuple[Schedule, str]:
    """As it would be stored, and on which database; ``ValidationError`` where an interval is not
    of whole seconds."""
    kind, target, model = resolved(declared.target, str(declared.columns["kind"]))
    timing = timing_text(declared.timing)
    columns = {**declared.columns, "kind": kind, "target": target, "timing": timing}
    row = Schedule(name=declared.name, is_declared=True, **columns)
    return row, declared.using or router.db_for_write(model or Schedule)


def resolved(target: Any, kind: str) -> tuple[str, str, type[Job] | None]:
    """Kind, name and model of what was given as a target."""
    if isinstance(target, type) and issubclass(target, Job):
        return kind or "table", target._meta.label, target
    if not isinstance(target, str):
        path = getattr(target, "module_path", None)
        return kind or "task", path if isinstance(path, str) else shown(target), None
    try:
        model = apps.get_model(target)
    except (LookupError, ValueError):
        return kind or "task", target, None
    return kind or "table", target, model if issubclass(model, Job) else None
