"""The verbs of queue tables as actions of the admin: in chunks, to a limited number at once."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

from django.contrib import messages
from django.contrib.admin.models import CHANGE, DELETION
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse

from ..lifecycle.operator import Changed
from ..states import MOVES, Status
from . import confirmation, tabs
from .confirmation import Question
from .cursor import BY_KEY
from .pagination import Keyset, keyset_of

CHUNK_ROWS = 500
ROWS_MAX = 10_000  # of one action


@dataclass(frozen=True)
class Verb:
    """A verb of queue tables that people use in the admin."""

    name: str
    question: Question
    is_final: bool = False

    @property
    def sources(self) -> Collection[Status]:
        """The states from which it takes a job."""
        return MOVES[self.name][0] if self.name in MOVES else set(Status)


KICK = Verb(
    "kick",
    Question(
        "kick_selected",
        "Put back to work",
        "Each of these buried or delayed jobs becomes ready now, with all its attempts.",
        "Put back to work",
    ),
)
BURY = Verb(
    "bury",
    Question(
        "bury_selected",
        "Park for a person",
        "Each of these is parked, and does not run until somebody puts it back to work. What runs "
        "at the moment goes on, but cannot write its outcome any more.",
        "Bury",
    ),
)
RELEASE = Verb(
    "release",
    Question(
        "release_selected",
        "Take away from the workers",
        "Each of these claimed jobs is taken away from its worker and becomes ready; what runs at "
        "the moment may run twice.",
        "Release",
    ),
)
CANCEL = Verb(
    "cancel",
    Question(
        "cancel_selected",
        "Cancel",
        "Each of these is taken out for good: into the archive as it is, or deleted where there is "
        "none. What runs at the moment goes on, but cannot write its outcome any more.",
        "Cancel for good",
    ),
    is_final=True,
)


@dataclass
class Progress:
    """What has been done to how many rows so far; the first of them are remembered."""

    verb: Verb
    result: Changed | None = None
    taken: int = 0
    first: list[Any] = field(default_factory=list)
    has_more: bool = False

    def do(self, keyset: Keyset) -> None:
        """The verb to these rows, in chunks, until the limit."""
        # Only what is named is read whole: mail may be long, and so may errors.
        names = {"pk", "status", *keyset.order.names}
        light = keyset.queryset.select_related(None).only(*names)
        queryset = keyset.queryset.order_by()
        for rows in replace(keyset, queryset=light).chunks(CHUNK_ROWS):
            if self.taken >= ROWS_MAX:
                self.has_more = True
                return
            taken = [row.pk for row in rows if row.status in self.verb.sources]
            named = queryset.in_bulk(taken[: confirmation.MOST + 1 - len(self.first)])
            result = getattr(queryset.filter(pk__in=[row.pk for row in rows]), self.verb.name)()
            self.result = result if self.result is None else self.result + result
            self.taken += len(taken)
            self.first += [named[key] for key in taken if key in named]

    def __str__(self) -> str:
        return str(self.result or Changed())


def act(
    model_admin: Any, request: HttpRequest, queryset: QuerySet[Any], verb: Verb
) -> TemplateResponse | None:
    """Do it to the rows that were chosen, or to all that match at this moment; at most 10,000."""
    keysets = [Keyset(queryset.order_by(), BY_KEY)]
    is_confirmed = confirmation.is_confirmed(request)
    if confirmation.is_across(request):
        # Through each state from which the verb takes jobs, by its index.
        selected = tabs.selected_state(request)
        states = [s for s in Status if s in verb.sources and selected in {None, s}]
        by_state = {status: keyset_of(queryset.order_by(), status) for status in states}
        if not is_confirmed:
            return confirmation.ask_about_all(model_admin, request, by_state, verb.question)
        keysets = list(by_state.values())
    elif verb.is_final and not is_confirmed and (rows := list(queryset.order_by("pk"))):
        return confirmation.ask_about_rows(model_admin, request, rows, verb.question)
    progress = Progress(verb)
    try:
        for keyset in keysets:
            progress.do(keyset)
    finally:
        # What was done is recorded, even if the rest failed.
        flag = DELETION if verb is CANCEL else CHANGE
        message = f"{verb.name}: {progress}"
        confirmation.log(request, progress.first, message, progress.taken, flag)
    text = str(progress)
    if progress.has_more:
        text += f". More match: at most {ROWS_MAX:,} are changed at once. Repeat it for the others."
    is_whole = not (progress.result and progress.result.skipped) and not progress.has_more
    model_admin.message_user(request, text, messages.SUCCESS if is_whole else messages.WARNING)
    return None
