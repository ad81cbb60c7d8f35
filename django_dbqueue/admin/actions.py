"""The verbs of queue tables as actions of the admin: in chunks, to a limited number at once."""

from collections.abc import Iterable
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

from ..lifecycle.operator import Changed
from ..operate import acting, recording
from ..operate.acting import Progress, Verb, told
from ..operate.cursor import BY_KEY
from ..operate.keyset import Keyset, keyset_of, keyset_of_parked
from ..operate.moments import as_of
from ..operate.orders import IN_TURN
from ..states import Status
from ..texts import wording
from ..texts.wording import STATES
from . import as_job, confirmation, matching, tabs
from .commands import command_line
from .confirmation import Question
from .lists import QUEUES_MAX, is_parked_asked, queues_of
from .values import PREFIX, MoveForm, PriorityForm, RescheduleForm, RetryForm, ValuesForm

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
    return Action(verb, Question(name, title, text, title, verb.name), form)


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
    """Do it to the rows that were chosen, or to those of all that match that were counted when it
    was asked; at most 10,000, and within some seconds."""
    action = action.titled(model_admin)
    is_confirmed, form = confirmation.is_confirmed(request), None
    if action.form is not None:
        form = action.form(request.POST if is_confirmed else None, prefix=PREFIX)
        is_confirmed = is_confirmed and form.is_valid()
    across = confirmation.is_across(request)
    is_confirmed = is_confirmed and (matching.is_told(request) or not across)
    if not is_confirmed and (across or form is not None or action.verb.is_final):
        asked = _ask(model_admin, request, queryset, action, form)
        if asked is None:  # what was chosen has gone
            _do(model_admin, request, action, Progress(action.verb), [])
        return asked
    verb = action.verb if form is None else action.verb.with_values(**form.values())
    if across and as_job.is_chosen(request):
        said, until = action.sentence(verb), matching.asked_at(request)
        values, model = dict(verb.values), queryset.model
        return as_job.enqueue(model_admin, request, verb.name, said, model, until, **values)
    progress = Progress(
        verb, matching.ROWS_MAX, recording.KEYS_NAMED_MAX, seconds=matching.PRESS_SECONDS
    )
    keysets: Iterable[Keyset] = [Keyset(queryset.order_by(), BY_KEY)]
    if across:
        keysets = _counted(model_admin, request, queryset, verb)
    _do(model_admin, request, action, progress, keysets)
    return None


def _counted(
    model_admin: Any, request: HttpRequest, queryset: QuerySet[Any], verb: Verb
) -> Iterable[Keyset]:
    """What was counted of all that match when somebody was asked."""
    groups = matching.packed_keys(request, queryset.model)
    if groups is not None:
        return matching.by_keys(queryset, groups)
    until = matching.asked_at(request)
    if until is None:
        return []
    by_state = _by_state(model_admin, request, as_of(queryset, until), verb)
    return [keyset for _word, keyset in by_state]


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
        return confirmation.ask_about_all(model_admin, request, queryset, by_state, question)
    rows = list(queryset.order_by("pk"))
    return confirmation.ask_about_rows(model_admin, request, rows, question) if rows else None


def _do(
    model_admin: Any,
    request: HttpRequest,
    action: Action,
    progress: Progress,
    keysets: Iterable[Keyset],
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
    progress.has_more |= bool(request.POST.get(matching.MORE_FIELD))
    text = f"{outcome(action.sentence(verb), progress)} {_of_more(model_admin, request, progress)}"
    model_admin.message_user(request, text.strip(), level_of(progress))


def _of_more(model_admin: Any, request: HttpRequest, progress: Progress) -> str:
    """What is said of those to which it was not done."""
    if not progress.has_more or progress.is_full:
        return ""
    named = {"most": wording.number(matching.ROWS_MAX)}
    if progress.taken < matching.ROWS_MAX and progress.is_late:
        return stopped()
    if command := command_line(model_admin, request, progress.verb):
        more = _(
            "More match: at most %(most)s are changed at once. Repeat it for the others, or "
            "have all of them done by %(command)s"
        )
        return more % {**named, "command": command}
    return _("More match: at most %(most)s are changed at once. Repeat it for the others.") % named


def stopped() -> str:
    """What is said where the time of an action was over before it was done to all."""
    seconds = wording.number(matching.PRESS_SECONDS)
    return _("It stopped after %(seconds)s s: repeat it for the others.") % {"seconds": seconds}


def outcome(action: str, progress: Progress) -> str:
    """What was done, and to how many."""
    result = wording.changed(progress.result or Changed())
    return _("%(action)s: %(result)s.") % {"action": action, "result": result}


def level_of(progress: Progress) -> int:
    """Green is what was done to some, and to all of them."""
    result = progress.result
    is_whole = result and result.changed and not result.skipped and not progress.has_more
    return messages.SUCCESS if is_whole else messages.WARNING
