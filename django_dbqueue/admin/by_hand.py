"""What a person does to jobs in the admin: asked for once more where it is final, and recorded."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.admin import ModelAdmin, helpers
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse

from ..states import MOVES

# So many rows have an entry of their own, and are named to whoever has to confirm.
MOST = 500
SAMPLE = 10


@dataclass(frozen=True)
class Question:
    """What is asked before something that cannot be undone."""

    action: str
    title: str
    text: str
    button: str
    describe: Callable[[Any], str] = str


def confirmed(
    model_admin: "ModelAdmin[Any]",
    request: HttpRequest,
    queryset: QuerySet[Any],
    question: Question,
    do: Callable[[list[Any]], None],
) -> TemplateResponse | None:
    """Do it to the rows if that was confirmed, else ask; never to more than 500 at once.

    What is done is done to the rows that were shown, not to what matches the filters by now.
    """
    rows = list(queryset.order_by("pk")[: MOST + 1])
    if len(rows) > MOST:
        text = f"At most {MOST} at once: choose fewer. Nothing was changed."
        model_admin.message_user(request, text, messages.ERROR)
        return None
    if request.POST.get("confirmed") != "yes":
        return _ask(model_admin, request, rows, question)
    do(rows)
    return None


def taken_by(verb: str, queryset: QuerySet[Any]) -> list[Any]:
    """The jobs that a verb will take, with one more than 500 where there are more."""
    sources, _ = MOVES[verb]
    rows = queryset if queryset.query.is_sliced else queryset.filter(status__in=list(sources))
    return list(rows.order_by("pk")[: MOST + 1])


def log(request: HttpRequest, rows: list[Any], message: str) -> None:
    """An entry for each row in the admin's log; one for all, with the filters, beyond 500."""
    user: Any = request.user.pk
    if len(rows) <= MOST:
        LogEntry.objects.log_actions(user, rows, CHANGE, message)
        return
    options = rows[0]._meta
    LogEntry.objects.create(
        user_id=user,
        content_type=ContentType.objects.get_for_model(rows[0], for_concrete_model=False),
        object_repr=f"more than {MOST} {options.verbose_name_plural}"[:200],
        action_flag=CHANGE,
        change_message=f"{message}; filters: {request.GET.urlencode() or 'none'}",
    )


def _ask(
    model_admin: "ModelAdmin[Any]", request: HttpRequest, rows: list[Any], question: Question
) -> TemplateResponse:
    context = {
        **model_admin.admin_site.each_context(request),
        "title": question.title,
        "opts": model_admin.opts,
        "media": model_admin.media,
        "question": question,
        "rows": rows,
        "sample": [question.describe(row) for row in rows[:SAMPLE]],
        "others": len(rows[SAMPLE:]),
        "checkbox": helpers.ACTION_CHECKBOX_NAME,
    }
    request.current_app = model_admin.admin_site.name
    return TemplateResponse(request, "dbqueue/confirm.html", context)
