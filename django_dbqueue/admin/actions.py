"""The verbs of queue tables as actions of the admin: in chunks, to a limited number at once."""

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.admin.models import CHANGE, DELETION
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse

from ..operate import acting, recording
from ..operate.acting import Progress, Verb
from ..operate.cursor import BY_KEY
from ..operate.keyset import Keyset, keyset_of
from ..states import Status
from . import confirmation, tabs
from .confirmation import Question

ROWS_MAX = 10_000  # of one action


@dataclass(frozen=True)
class Action:
    """A verb of queue tables that people use in the admin, and what they are asked before."""

    verb: Verb
    question: Question


def _action(verb: Verb, of_these: str, title: str, button: str) -> Action:
    text = f"Each of these {of_these}{verb.says}."
    return Action(verb, Question(f"{verb.name}_selected", title, text, button))


BACK = "Put back to work"
KICK = _action(acting.KICK, "buried or delayed jobs ", BACK, BACK)
BURY = _action(acting.BURY, "", "Park for a person", "Bury")
RELEASE = _action(acting.RELEASE, "claimed jobs ", "Take away from the workers", "Release")
CANCEL = _action(acting.CANCEL, "", "Cancel", "Cancel for good")


def act(
    model_admin: Any, request: HttpRequest, queryset: QuerySet[Any], action: Action
) -> TemplateResponse | None:
    """Do it to the rows that were chosen, or to all that match at this moment; at most 10,000."""
    verb, question = action.verb, action.question
    keysets = [Keyset(queryset.order_by(), BY_KEY)]
    is_confirmed = confirmation.is_confirmed(request)
    if confirmation.is_across(request):
        # Through each state from which the verb takes jobs, by its index.
        selected = tabs.selected_state(request)
        states = [s for s in Status if s in verb.sources and selected in {None, s}]
        by_state = {status: keyset_of(queryset.order_by(), status) for status in states}
        if not is_confirmed:
            return confirmation.ask_about_all(model_admin, request, by_state, question)
        keysets = list(by_state.values())
    elif verb.is_final and not is_confirmed and (rows := list(queryset.order_by("pk"))):
        return confirmation.ask_about_rows(model_admin, request, rows, question)
    progress = Progress(verb, limit=ROWS_MAX, keeps=recording.KEYS_NAMED_MAX)
    try:
        for keyset in keysets:
            progress.do(keyset)
    finally:
        # What was done is recorded, even if the rest failed.
        flag = DELETION if verb.is_final else CHANGE
        message = f"{verb.name}: {progress}"
        confirmation.log(request, progress.first, message, progress.taken, flag)
    text = str(progress)
    if progress.has_more:
        text += f". More match: at most {ROWS_MAX:,} are changed at once. Repeat it for the others."
    is_whole = not (progress.result and progress.result.skipped) and not progress.has_more
    model_admin.message_user(request, text, messages.SUCCESS if is_whole else messages.WARNING)
    return None
