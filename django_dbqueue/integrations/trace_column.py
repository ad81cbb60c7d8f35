"""The column in which a trace travels with a job, and how traces name what was enqueued."""

import json
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import FieldDoesNotExist

from ..events import Enqueueing
from ..guard import capture

SYSTEM = "django_dbqueue"
COLUMN = "trace_context"


def has_column(model: Any) -> bool:
    try:
        model._meta.get_field(COLUMN)
    except FieldDoesNotExist:
        return False
    return True


def put(what: Enqueueing, carrier: Mapping[str, str]) -> None:
    """Into the rows, which have the column; of no trace nothing is written."""
    if carrier:
        what.columns[COLUMN] = json.dumps(carrier)


def read(job: Any) -> dict[str, str]:
    """Empty where its row holds none."""
    found: dict[str, str] = {}
    with capture():  # a hand may have written anything there
        for name, value in json.loads(getattr(job, COLUMN, None) or "{}").items():
            found[str(name)] = str(value)
    return found


def destination(label: str, queue: str) -> str:
    """As ``runworker`` takes it."""
    return f"{label}:{queue}"


def queue_of(what: Enqueueing) -> str:
    """That of the first job."""
    first = what.jobs[0]
    if isinstance(first, Mapping):
        return str(first.get("queue") or what.model._meta.get_field("queue").get_default())
    return str(first.queue)


def key_of(what: Enqueueing) -> str | None:
    """Of one job that has been saved."""
    key = getattr(what.jobs[0], "pk", None) if len(what.jobs) == 1 else None
    return None if key is None else str(key)
