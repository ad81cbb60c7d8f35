"""What a person does to jobs in the admin is recorded, and has to be confirmed where it is final or
done to all that match."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin import ModelAdmin, helpers
from django.contrib.admin.models import CHANGE
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..operate.cursor import BY_KEY
from ..operate.keyset import Keyset, keyset_of
from ..operate.recording import record
from ..texts.wording import number as spoken
from ..texts.wording import state_word
from . import as_job, matching, tabs
from .changelist import NOT_FILTERS
from .matching import KEYS_FIELD, ByState, Found, find
from .pages import page_url, respond
from .search import as_key

# So many rows are read whole at once, and named one by one where somebody has to confirm: Django
# reads no more than a thousand fields of a form.
MOST = 500
SAMPLE_ROWS = 10
EVERYTHING, ALL_THAT_MATCH = "everything", gettext_lazy("All that match")
# The key of the job whose page had the button.
PAGE_FIELD = "dbqueue_page"


class LabelledBox(forms.CheckboxInput):
    """With its words next to it: some themes of the admin show no label in this place."""

    def render(self, *args: Any, **kwargs: Any) -> SafeString:
        return format_html("<label>{} {}</label>", ALL_THAT_MATCH, super().render(*args, **kwargs))


class JobActionForm(helpers.ActionForm):
    """With a box for all that match: Django's own link needs a script."""

    everything = forms.BooleanField(label="", required=False, widget=LabelledBox)


@dataclass(frozen=True)
class Question:
    """What is asked before something that cannot be undone, or that is done to many."""

    action: str
    title: Any  # texts that are made before anybody reads them
    text: Any
    button: Any
    verb: str = ""  # in code
    form: Any = None  # of what it is told besides the jobs
    queues: Sequence[str] = ()  # that it may name
    offer: as_job.Offer | None = None  # of more than one press may change
    is_for_job: bool = False  # and for nothing else


@dataclass
class Asked:
    """What the page that asks shows: a sample of the rows, or of all that match."""

    question: Question
    counts: list[tuple[str, str]]
    sample: Sequence[Any]
    # Of the rows to which it is done; None where it is done to all that match.
    keys: list[Any] | None = None
    others: int = 0
    note: str = ""  # of those to which it is not done
    hidden: Mapping[str, str] = field(default_factory=dict)


def normalize_selection(request: HttpRequest, model: type[Model]) -> None:
    """Tell Django of the box for all that match, and leave out what is no key."""
    data = request.POST.copy()
    across = bool(data.get(EVERYTHING)) or data.get("select_across", "0") not in {"", "0"}
    keys = [
        key for key in data.getlist(helpers.ACTION_CHECKBOX_NAME) if as_key(model._meta.pk, key)
    ]
    data["select_across"] = str(int(across))
    # Without a chosen row it would do nothing.
    data.setlist(helpers.ACTION_CHECKBOX_NAME, keys or ["0"] if across else keys)
    request.POST = data  # type: ignore[assignment]


def is_across(request: HttpRequest) -> bool:
    """Whether all that match are meant."""
    return request.POST.get("select_across") == "1"


def is_confirmed(request: HttpRequest) -> bool:
    return request.POST.get("confirmed") == "yes"


def names_rows(request: HttpRequest) -> bool:
    """Whether an action is done to rows that are named by their keys, whatever matches by now."""
    is_packed = is_confirmed(request) and bool(request.POST.get(KEYS_FIELD))
    return request.method == "POST" and (is_packed or not is_across(request))


def confirmed(
    model_admin: "ModelAdmin[Any]",
    request: HttpRequest,
    queryset: QuerySet[Any],
    question: Question,
    do: Callable[[Iterator[list[Any]]], None],
) -> HttpResponse | None:
    """Do it to the rows, up to 500 at a time, if that was confirmed, else ask; never to more than
    10,000 at once.

    What is done is done to the rows that were shown, not to what matches the filters by now.
    """
    if is_across(request) and as_job.is_chosen(request):
        title, until = str(question.title), matching.asked_at(request)
        model = queryset.model
        return as_job.enqueue(model_admin, request, question.verb, title, model, until)
    found, is_asked = Found([]), is_confirmed(request)
    packed = matching.packed_keys(request, queryset.model) if is_asked else None
    if packed is not None:
        found.groups = packed
    elif is_across(request):
        is_asked = False  # nobody has seen which these are
        by_state = [(_("rows"), selected_keyset(model_admin, request, queryset))]
        found = find(queryset, by_state)
        question = _with_offer(question, queryset, found)
    else:
        found.groups = [list(queryset.order_by("pk").values_list("pk", flat=True))]
    keys = found.keys
    if found.has_more or len(keys) > matching.ROWS_MAX:
        if question.offer is not None:
            question = replace(question, is_for_job=True)
            return _ask_about_found(model_admin, request, queryset, found, question)
        text = _("At most %(most)s at once: choose fewer. Nothing was changed.")
        text %= {"most": spoken(matching.ROWS_MAX)}
        model_admin.message_user(request, text, messages.ERROR)
        return None
    rows = rows_of(queryset, keys)
    if (keys or found.is_cut) and not is_asked:
        return ask_about_keys(model_admin, request, found, next(rows, []), question)
    do(rows)
    return None


def rows_of(queryset: QuerySet[Any], keys: Sequence[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(keys), MOST):
        yield list(queryset.filter(pk__in=keys[start : start + MOST]).order_by("pk"))


def selected_keyset(model_admin: Any, request: HttpRequest, queryset: QuerySet[Any]) -> Keyset:
    """The rows that were chosen, or all that match."""
    if not is_across(request):
        return Keyset(queryset.order_by(), BY_KEY)
    selected = tabs.selected_state(request)
    return keyset_of(queryset.order_by(), selected, model_admin.has_states)


def log(
    request: HttpRequest,
    rows: list[Any],
    message: str,
    number: int | None = None,
    flag: int = CHANGE,
) -> None:
    """An entry in the admin's log; ``number`` is that of all rows, where ``rows`` are only the
    first of them."""
    if rows:
        number = len(rows) if number is None else number
        asked = filters(request)
        who, model = request.user.pk, type(rows[0])
        record(who, model, rows, message, number=number, filters=asked, flag=flag)


def filters(request: HttpRequest) -> str:
    """What the list was asked for, whichever of its pages was shown."""
    asked = request.GET.copy()
    for name in NOT_FILTERS:
        asked.pop(name, None)
    return str(asked.urlencode())


def ask_about_keys(
    model_admin: Any,
    request: HttpRequest,
    found: Found,
    rows: list[Any],
    question: Question,
) -> TemplateResponse:
    """``rows``: the first of them."""
    number = len(found.keys)
    if number <= MOST and question.offer is None:
        return ask_about_rows(model_admin, request, rows, question, found.note)
    sample = [model_admin.describe(row) for row in rows[:SAMPLE_ROWS]]
    others, counts = max(number - SAMPLE_ROWS, 0), [(_("rows"), spoken(number))]
    asked = Asked(question, counts, sample, [], others, found.note, found.hidden())
    return _ask(model_admin, request, asked)


def ask_about_rows(
    model_admin: Any, request: HttpRequest, rows: list[Any], question: Question, note: str = ""
) -> TemplateResponse:
    labels = model_admin.state_words
    states = Counter(str(labels.get(row.status, state_word(row.state))) for row in rows)
    asked = Asked(
        question,
        [(name, spoken(number)) for name, number in states.items()],
        [model_admin.describe(row) for row in rows[:SAMPLE_ROWS]],
        [row.pk for row in rows],
        len(rows[SAMPLE_ROWS:]),
        note,
    )
    return _ask(model_admin, request, asked)


def ask_about_all(
    model_admin: Any,
    request: HttpRequest,
    queryset: QuerySet[Any],
    by_state: ByState,
    question: Question,
) -> TemplateResponse | None:
    """``by_state``: the words of the states, and all that match in each. None where none does."""
    found = find(queryset, by_state)
    if not (found.keys or found.is_cut):
        return None
    question = _with_offer(question, queryset, found)
    return _ask_about_found(model_admin, request, queryset, found, question)


def _with_offer(question: Question, queryset: QuerySet[Any], found: Found) -> Question:
    """A job does it to those, too, that were not found."""
    if not found.is_partial:
        return question
    return replace(question, offer=as_job.offered(question.verb, queryset))


def _ask_about_found(
    model_admin: Any,
    request: HttpRequest,
    queryset: QuerySet[Any],
    found: Found,
    question: Question,
) -> TemplateResponse:
    """A sample of all that match."""
    rows = matching.sample(queryset, found.keys[:SAMPLE_ROWS])
    sample = [model_admin.describe(row) for row in rows]
    note = "" if question.is_for_job else found.note
    hidden = found.hidden(names_keys=question.form is None and not question.is_for_job)
    asked = Asked(question, found.counts, sample, note=note, hidden=hidden)
    return _ask(model_admin, request, asked)


def _ask(model_admin: Any, request: HttpRequest, asked: Asked) -> TemplateResponse:
    list_url = page_url(
        model_admin.admin_site,
        f"{model_admin.opts.app_label}_{model_admin.opts.model_name}_changelist",
    )
    context = {
        "title": asked.question.title,
        "parent_title": capfirst(str(model_admin.opts.verbose_name_plural)),
        "parent_url": list_url,
        "asked": asked,
        "question": asked.question,
        "zone": timezone.get_current_timezone_name(),
        "filters": _chosen_filters(model_admin.get_changelist_instance(request)),
        "list_query": f"?{filters(request)}",
        "checkbox": helpers.ACTION_CHECKBOX_NAME,
        "page": request.POST.get(PAGE_FIELD),
    }
    return respond(model_admin, request, "dbqueue/confirm.html", context)


def _chosen_filters(changelist: Any) -> list[tuple[str, str]]:
    """The filters, with the values that were chosen."""
    asked = dict(changelist.filter_params)
    found = []
    for spec in changelist.filter_specs:
        mine = [asked.pop(name) for name in spec.expected_parameters() if name in asked]
        shown = [str(one["display"]) for one in spec.choices(changelist) if one["selected"]]
        if mine:
            found.append((str(spec.title), shown[0] if shown else str(mine[0][-1])))
    asked.pop("q", None)
    found += [(name, ", ".join(map(str, values))) for name, values in asked.items()]
    return found + ([(_("search"), changelist.query)] if changelist.query else [])
