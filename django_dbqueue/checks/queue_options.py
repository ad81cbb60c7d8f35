"""System check of the setting ``QUEUES``: tables, options, values."""

from collections.abc import Iterator, Mapping
from typing import Any

from django.core.checks import CheckMessage, Error
from django.core.exceptions import ImproperlyConfigured, ValidationError

from ..conf import conf, nearest
from ..exceptions import shown
from ..fields import check_name
from ..lifecycle.policy import PROBLEMS, QUEUE_OPTIONS
from ..lifecycle.queue_options import UNFIT
from ..worker.served import queue_tables

HINT = 'Write {"app.table:queue": {"max_length": 1000}}, or "app.table" for all of its queues.'


def check_queue_options(**_: Any) -> list[CheckMessage]:
    """Judge what the setting ``QUEUES`` says; what makes no sense counts as not given."""
    try:
        given = conf["QUEUES"]
    except ImproperlyConfigured:
        return []  # dbqueue.E015 tells
    return [
        Error(f"DBQUEUE['QUEUES'][{shown(name)}] {problem}.", hint=HINT, id="dbqueue.E018")
        for name, options in given.items()
        for problem in _problems(name, options)
    ]


def _problems(name: Any, options: Any) -> Iterator[str]:
    table, has_queue, queue = str(name).partition(":")
    known = {model._meta.label_lower for model in queue_tables()}
    if table.lower() not in known:
        near = nearest(table.lower(), known)
        yield "names no queue table" + (f" (did you mean {near}?)" if near else "")
    if has_queue:
        try:
            check_name(queue, "queue")
        except ValidationError as error:
            yield f"names no queue: {error.messages[0]}"
    if not isinstance(options, Mapping):
        yield f"must be a dict of options, not {shown(options)}"
        return
    unfit = UNFIT.get(table.lower(), {})
    for option, value in options.items():
        if option not in QUEUE_OPTIONS:
            known_options = ", ".join(sorted(QUEUE_OPTIONS))
            yield f"has {shown(option)}, which is no option of a queue; known: {known_options}"
        elif problem := PROBLEMS[option](value) or unfit.get(option, ""):
            yield f"has {option} = {shown(value)}: {problem}"
