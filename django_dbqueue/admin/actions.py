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
from .pagination import Ordering, ordering_of

CHUNK = 500
AT_ONCE = 10_000


@dataclass(frozen=True)
class Verb:
    """A verb of queue tables that people use in the admin."""

    verb: str
    question: Question
    is_final: bool = False

    @property
    def sources(self) -> Collection[Status]:
        """The states from which it takes a job."""
        return MOVES[self.verb][0] if self.verb in MOVES else set(Status)


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
class Work:
    """What has been done to how many rows so far; the first of them are remembered."""

    verb: Verb
    result: Changed | None = None
    taken: int = 0
    first: list[Any] = field(default_factory=list)
    has_more: bool = False

    def through(self, way: Ordering) -> None:
        # Only what is named is read whole: mail may be long, and so may errors.
        names = {"pk", "status", *way.order.names}
        light = way.queryset.select_related(None).only(*names)
        for rows in replace(way, queryset=light).walk(CHUNK):
            if self.taken >= AT_ONCE:
                self.has_more = True
                return
            self._do(way.queryset.order_by(), rows)

    def _do(self, queryset: QuerySet[Any], rows: list[Any]) -> None:
        taken = [row.pk for row in rows if row.status in self.verb.sources]
        named = queryset.in_bulk(taken[: confirmation.MOST + 1 - len(self.first)])
        result = getattr(queryset.filter(pk__in=[row.pk for row in rows]), self.verb.verb)()
        self.result = result if self.result is None else self.result + result
        self.taken += len(taken)
        self.first += [named[key] for key in taken if key in named]

    def __str__(self) -> str:
        return str(self.result or Changed())


def act(
    model_admin: Any, request: HttpRequest, queryset: QuerySet[Any], verb: Verb
) -> TemplateResponse | None:
    """Do it to the rows that were chosen, or to all that match at this moment; at most 10,000."""
    ways = _ways(request, queryset, verb)
    if not confirmation.is_confirmed(request):
        if confirmation.is_across(request):
            return confirmation.ask_of_all(model_admin, request, ways, verb.question)
        rows = list(queryset.order_by("pk")) if verb.is_final else []
        if rows:
            return confirmation.ask_of_rows(model_admin, request, rows, verb.question)
    chosen = {None: Ordering(queryset.order_by(), BY_KEY)}
    _do(model_admin, request, verb, ways if confirmation.is_across(request) else chosen)
    return None


def _do(model_admin: Any, request: HttpRequest, verb: Verb, ways: dict[Any, Ordering]) -> None:
    work = Work(verb)
    try:
        for way in ways.values():
            work.through(way)
    finally:
        # What was done is recorded, whatever became of the rest.
        flag = DELETION if verb is CANCEL else CHANGE
        confirmation.log(request, work.first, f"{verb.verb}: {work}", work.taken, flag)
    text = str(work)
    if work.has_more:
        text += f". More match: at most {AT_ONCE:,} are changed at once. Repeat it for the others."
    is_whole = not (work.result and work.result.skipped) and not work.has_more
    level = messages.SUCCESS if is_whole else messages.WARNING
    model_admin.message_user(request, text, level)


def _ways(request: HttpRequest, queryset: QuerySet[Any], verb: Verb) -> dict[Status, Ordering]:
    """Through each state from which the verb takes jobs, by its index."""
    selected = tabs.selected_state(request)
    states = [s for s in Status if s in verb.sources and selected in {None, s}]
    return {status: ordering_of(queryset.order_by(), status) for status in states}
