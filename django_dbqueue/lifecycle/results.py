"""What a run leaves: a coroutine that has to be run, and the columns of ``Policy.results``, which
are written with its outcome."""

import inspect
import json
from collections.abc import Awaitable
from contextvars import copy_context
from typing import Any

from asgiref.sync import async_to_sync
from django.db.models import JSONField

from ..current import current_job, running_coroutine
from ..guard import capture
from .table import Table

Results = tuple[str, list[Any]]
NONE: Results = "", []


def settle(answer: Any) -> None:
    """Run a coroutine on this thread; ``TypeError`` for what yields: nothing of it has run."""
    if answer is None:
        return
    if inspect.isawaitable(answer):
        # What it sets in its context is not the next job's.
        copy_context().run(async_to_sync(_wait_for), answer, current_job())
    elif inspect.isgenerator(answer) or inspect.isasyncgen(answer):
        raise TypeError("run() yields: nothing in it was run; it has to be a plain method")


async def _wait_for(answer: Awaitable[object], job: Any) -> None:
    with running_coroutine(job):
        await answer


def results_of(table: Table, job: Any) -> Results:
    """The end of a SET clause and its parameters, of the columns that this instance has loaded.

    Raises what Django does about a value that its column cannot hold.
    """
    if not table.policy.results:
        return NONE
    fields = [table.model._meta.get_field(name) for name in table.policy.results]
    loaded = [field for field in fields if field.attname in job.__dict__]
    quote = table.connection.ops.quote_name
    sets, params = "", []
    for field in loaded:
        value = getattr(job, field.attname)
        # Databases and their drivers find these out when it is too late to fail the job.
        if isinstance(field, JSONField):
            json.dumps(value, cls=field.encoder, allow_nan=False)
        param = field.get_db_prep_save(value, table.connection)
        if param is None and not field.null:
            raise ValueError(f"{field.name} must not be None")
        sets += f", {quote(str(field.column))} = %s"
        params.append(param)
    return sets, params


def results_or_none(table: Table, job: Any) -> Results:
    """For a failure, which is recorded whatever the run has left."""
    with capture():
        return results_of(table, job)
    return NONE
