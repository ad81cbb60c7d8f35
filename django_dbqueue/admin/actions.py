"""The verbs of queue tables as actions of the admin: in chunks, to a limited number at once."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.contrib import messages
from django.contrib.admin.models import CHANGE, DELETION
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, override, pgettext_lazy

from ..lifecycle.limiter import base_of, limiter_of
from ..lifecycle.operator import Changed
from ..operate import acting, recording
from ..operate.acting import Progress, Verb, told
from ..operate.cursor import BY_KEY
from ..operate.keyset import Keyset, keyset_of, keyset_of_parked
from ..operate.orders import IN_TURN
from ..states import Status
from ..texts import wording
from ..texts.wording import STATES
from . import as_job, confirmation, tabs
from .changelist import NOT_FILTERS
from .confirmation import ROWS_MAX, Question
from .databases import alias_of, query_of
from .lists import (
    QUEUES_MAX,
    FailureFilter,
    QueueFilter,
    StateFilter,
    is_parked_asked,
    queues_of,
)
from .values import PREFIX, MoveForm, PriorityForm, RescheduleForm, RetryForm, ValuesForm

# What the command line can be told of a list's filters, and the word of a verb there.
TOLD = {StateFilter.parameter_name, QueueFilter.parameter_name, FailureFilter.parameter_name}
OPTIONS = {"queue": "--to", "priority": "--to", "due": "--at", "time_to_run": "--time-to-run"}
# By verb and the values that it is told, what was done.
SENTENCES: dict[tuple[str, ...], Any] = {
    ("move", "queue"): gettext_lazy("Move to %(queue)s"),
    ("prioritize", "priority"): gettext_lazy("Prioritize to %(priority)s"),
    ("reschedule", "due"): gettext_lazy("Reschedule at %(due)s"),
    ("kick", "due"): gettext_lazy("Retry at %(due)s"),
    ("kick", "time_to_run"): gettext_lazy("Retry with %(time_to_run)s s to run"),
    ("kick", "due", "time_to_run"): gettext_lazy("Retry with %(time_to_run)s s to run at %(due)s"),
}


@dataclass(frozen=True)
class Action:
    """A verb of queue tables that people use in the admin, and what they are asked before: always,
    where there is a ``form``, and before what is final or done to all that match."""

    verb: Verb
    question: Question
    form: type[ValuesForm] | None = None

    def titled(self, model_admin: Any) -> "Action":
        """By the word of a table's own, as mail has one for bury."""
        own = model_admin.action_titles.get(self.verb.name)
        if own is None:
            return self
        # A word in English is for the log, too.
        with override(None):
            verb = replace(self.verb, title=str(own))
        return replace(self, verb=verb, question=replace(self.question, title=own, button=own))

    def sentence(self, verb: Verb) -> str:
        """What was done, with the values, to the one who did it; ``Verb.told`` is for the log."""
        values = dict(verb.values)
        text = SENTENCES.get((verb.name, *sorted(values)), self.question.title)
        return str(text) % {name: told(value) for name, value in values.items()}


def _action(
    verb: Verb,
    title: Promise,
    text: Promise,
    form: type[ValuesForm] | None = None,
    name: str = "",
) -> Action:
    name = name or f"{verb.name}_selected"
    return Action(verb, Question(name, title, text, title), form)


RETRIED = gettext_lazy(
    "Each of these buried or delayed jobs becomes ready now, with all its attempts."
)
KICK = _action(acting.KICK, pgettext_lazy("action", "Retry"), RETRIED)
KICK_WITH = _action(
    acting.KICK, pgettext_lazy("action", "Retry"), RETRIED, RetryForm, "kick_with_selected"
)
BURY = _action(
    acting.BURY,
    pgettext_lazy("action", "Bury"),
    gettext_lazy(
        "Each of these is parked, and does not run until somebody retries it. What runs at the "
        "moment goes on, but cannot write its outcome any more."
    ),
)
RELEASE = _action(
    acting.RELEASE,
    pgettext_lazy("action", "Release"),
    gettext_lazy(
        "Each of these claimed jobs is taken away from its worker and becomes ready; what runs at "
        "the moment may run twice."
    ),
)
CANCEL = _action(
    acting.CANCEL,
    pgettext_lazy("action", "Cancel"),
    gettext_lazy(
        "Each of these is taken out for good: into the archive as it is, or deleted where there is "
        "none. What runs at the moment goes on, but cannot write its outcome any more."
    ),
)
MOVE = _action(
    acting.MOVE,
    pgettext_lazy("action", "Move"),
    gettext_lazy(
        "Each of these goes to another queue, and stays in its state. One whose dedup key a job "
        "there has, and one for which that queue has no room, stays where it is."
    ),
    MoveForm,
)
PRIORITIZE = _action(
    acting.PRIORITIZE,
    pgettext_lazy("action", "Prioritize"),
    gettext_lazy("Each of these gets another priority; 0 is the most urgent."),
    PriorityForm,
)
RESCHEDULE = _action(
    acting.RESCHEDULE,
    pgettext_lazy("action", "Reschedule"),
    gettext_lazy(
        "Each of these ready or delayed jobs runs at another time, be it sooner or later."
    ),
    RescheduleForm,
)


def act(
    model_admin: Any, request: HttpRequest, queryset: QuerySet[Any], action: Action
) -> HttpResponse | None:
    """Do it to the rows that were chosen, or to all that match at this moment; at most 10,000."""
    action = action.titled(model_admin)
    is_confirmed, form = confirmation.is_confirmed(request), None
    if action.form is not None:
        form = action.form(request.POST if is_confirmed else None, prefix=PREFIX)
        is_confirmed = is_confirmed and form.is_valid()
    across = confirmation.is_across(request)
    if not is_confirmed and (across or form is not None or action.verb.is_final):
        asked = _ask(model_admin, request, queryset, action, form)
        if asked is None:  # what was chosen has gone
            _do(model_admin, request, action, Progress(action.verb, ROWS_MAX), [])
        return asked
    verb = action.verb if form is None else action.verb.with_values(**form.values())
    if across and as_job.is_chosen(request):
        said = action.sentence(verb), queryset.model
        return as_job.enqueue(model_admin, request, verb.name, *said, **dict(verb.values))
    keysets = [Keyset(queryset.order_by(), BY_KEY)]
    if across:
        keysets = [keyset for _word, keyset in _by_state(model_admin, request, queryset, verb)]
    progress = Progress(verb, ROWS_MAX, recording.KEYS_NAMED_MAX)
    _do(model_admin, request, action, progress, keysets)
    return None


def _by_state(
    model_admin: Any, request: HttpRequest, queryset: QuerySet[Any], verb: Verb
) -> list[tuple[Any, Keyset]]:
    """All that match, with the words of their states: through each state from which the verb takes
    jobs, by its index."""
    selected, rows, found = tabs.selected_state(request), queryset.order_by(), list[Any]()
    if is_parked_asked(request, queryset.model) and Status.DELAYED in verb.sources:
        return [(STATES["waiting for its key"], keyset_of_parked(rows))]
    for status in [s for s in IN_TURN if s in verb.sources and selected in {None, s}]:
        found.append((model_admin.state_words[status], keyset_of(rows, status)))
        # They have no time, and are in no tab of a state.
        if status == Status.DELAYED and selected is None and queryset.model.takes_keys:
            found.append((STATES["waiting for its key"], keyset_of_parked(rows)))
    return found


def _ask(
    model_admin: Any,
    request: HttpRequest,
    queryset: QuerySet[Any],
    action: Action,
    form: ValuesForm | None,
) -> TemplateResponse | None:
    """None where there is no row to ask about."""
    queues = queues_of(request, model_admin.model) if action.form is MoveForm else []
    question = replace(action.question, form=form, queues=queues[:QUEUES_MAX])
    if confirmation.is_across(request):
        by_state = _by_state(model_admin, request, queryset, action.verb)
        keysets = [keyset for _word, keyset in by_state]
        offer = as_job.offered(action.verb.name, queryset, keysets, ROWS_MAX)
        question = replace(question, offer=offer)
        return confirmation.ask_about_all(model_admin, request, by_state, question)
    rows = list(queryset.order_by("pk"))
    return confirmation.ask_about_rows(model_admin, request, rows, question) if rows else None


def _do(
    model_admin: Any,
    request: HttpRequest,
    action: Action,
    progress: Progress,
    keysets: Sequence[Keyset],
) -> None:
    verb = progress.verb
    try:
        for keyset in keysets:
            progress.do(keyset)
    finally:
        # What was done is recorded, even if the rest failed.
        flag = DELETION if verb.is_final else CHANGE
        message = f"{verb.told}: {progress}"
        confirmation.log(request, progress.first, message, progress.taken, flag)
    text, is_limited = outcome(action.sentence(verb), progress), progress.taken >= ROWS_MAX
    if progress.has_more and is_limited and not progress.is_full:
        more = _("More match: at most %(most)s are changed at once. Repeat it for the others.")
        if command := command_line(model_admin, request, verb):
            more = _(
                "More match: at most %(most)s are changed at once. Repeat it for the others, or "
                "have all of them done by %(command)s"
            )
        text += f" {more % {'most': wording.number(ROWS_MAX), 'command': command}}"
    model_admin.message_user(request, text, level_of(progress))


def outcome(action: str, progress: Progress) -> str:
    """What was done, and to how many."""
    result = wording.changed(progress.result or Changed())
    return _("%(action)s: %(result)s.") % {"action": action, "result": result}


def level_of(progress: Progress) -> int:
    """Green is what was done to some, and to all of them."""
    result = progress.result
    is_whole = result and result.changed and not result.skipped and not progress.has_more
    return messages.SUCCESS if is_whole else messages.WARNING


def command_line(model_admin: Any, request: HttpRequest, verb: Verb) -> str:
    """The command that does it to all that match; '' where it knows no such filter."""
    ignored = {*NOT_FILTERS, *query_of(model_admin.model, alias_of(request, model_admin.model))}
    asked = {name: value for name, value in request.GET.items() if name not in ignored and value}
    state = tabs.selected_state(request)
    is_told = asked.keys() <= TOLD and not _would_do_more(model_admin.model, asked, state)
    if not is_told or not confirmation.is_across(request):
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
