"""The command that does what an action does, to all that match at once."""

import shlex
from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest

from ..lifecycle.limiter import base_of, limiter_of
from ..operate.acting import Verb
from ..operate.conditions import asked_queue
from ..states import Status
from . import confirmation, tabs
from .changelist import NOT_FILTERS
from .databases import alias_of, query_of
from .lists import FailureFilter, QueueFilter, StateFilter

# What the command line can be told of a list's filters, and the word of a verb there.
TOLD = {StateFilter.parameter_name, QueueFilter.parameter_name, FailureFilter.parameter_name}
OPTIONS = {"queue": "--to", "priority": "--to", "due": "--at", "time_to_run": "--time-to-run"}


def command_line(model_admin: Any, request: HttpRequest, verb: Verb) -> str:
    """The command that does it to all that match; '' where it knows no such filter."""
    ignored = {*NOT_FILTERS, *query_of(model_admin.model, alias_of(request, model_admin.model))}
    asked = {name: value for name, value in request.GET.items() if name not in ignored and value}
    state = tabs.selected_state(request)
    is_told = asked.keys() <= TOLD and not _would_do_more(model_admin.model, asked, state)
    if not is_told or _is_narrowed(model_admin, request) or not confirmation.is_across(request):
        return ""
    word = "retry" if (verb.name, state) == ("kick", Status.BURIED) else verb.name
    words = ["manage.py", "dbqueue", word, model_admin.opts.label_lower]
    words += ["--database", alias_of(request, model_admin.model)]
    # Of a word for one state alone it is no option.
    if state is not None and word != "retry" and len(verb.sources) > 1:
        words += ["--state", state.label]
    for name in (QueueFilter.parameter_name, FailureFilter.parameter_name):
        words += _option(f"--{name}", str(asked[name])) if name in asked else []
    for name, value in verb.values:
        text = value.isoformat() if name == "due" else str(value)
        words += _option(OPTIONS[name], text)
    return shlex.join(words)


def _is_narrowed(model_admin: Any, request: HttpRequest) -> bool:
    """Whether the list shows some of the jobs only, as to the people of one tenant."""
    return asked_queue(model_admin.get_queryset(request)) != (True, None)


def _would_do_more(model: type[Any], asked: Mapping[str, Any], state: Status | None) -> bool:
    """A command takes the lanes of a queue along, and with delayed jobs those that wait for a
    key."""
    limiter, queue = limiter_of(model), asked.get(QueueFilter.parameter_name)
    has_lanes = limiter is not None and limiter.has_lanes
    with_lanes = has_lanes and queue is not None and base_of(model, queue) == queue
    return with_lanes or (model.takes_keys and state == Status.DELAYED)


def _option(name: str, value: str) -> list[str]:
    """A value that begins with a dash would be taken for another option."""
    return [f"{name}={value}"] if value.startswith("-") else [name, value]
