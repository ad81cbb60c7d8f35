"""The page of one search over all: jobs, mail, failures, workers; by an index, or among few."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.contrib.admin import AdminSite
from django.contrib.auth import get_permission_codename
from django.core.exceptions import PermissionDenied
from django.db import connections
from django.db.models import Model
from django.db.utils import Error
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from ..dialects import dialect_of
from ..exceptions import first_line
from ..lifecycle.failures import VARYING, without_values
from ..models import FailureKind, Worker
from ..models.failure import KINDS_MAX
from ..operate import walking
from ..operate.cursor import order_of
from ..operate.keyset import keyset_in
from ..texts.wording import state_word, worker_state_word
from ..worker.served import all_served
from . import search
from .base import ReadOnlyAdmin
from .databases import aliases, query_of
from .formatting import time_tag
from .pages import list_url, page_url, respond, row_url
from .search import Note

HITS_MAX = 10  # of one table
WORKERS_MAX = 1000  # that are looked through, the newest
OWNER_MIN_CHARS = 6
TERM_MAX_CHARS = 500
TEXT_MAX_CHARS = 160


@dataclass(frozen=True)
class Hit:
    text: str
    url: str
    state: str = ""
    more: str = ""


@dataclass
class Section:
    """What was found in one table; ``url`` leads to its list, with the same search."""

    title: str
    url: str = ""
    hits: list[Hit] = field(default_factory=list)
    has_more: bool = False
    notes: list[Note] = field(default_factory=list)
    problem: str = ""


def search_view(model_admin: Any, request: HttpRequest) -> TemplateResponse:
    if not model_admin.has_view_permission(request):
        raise PermissionDenied
    site: AdminSite = model_admin.admin_site
    term = request.GET.get("q", "").replace("\0", "").strip()[:TERM_MAX_CHARS]
    term = term.encode(errors="replace").decode()
    sections = list(_sections(site, request, term)) if term else []
    context = {
        "title": _("Search"),
        "parent_title": _("Queues"),
        "parent_url": page_url(site, "dbqueue_queue_changelist"),
        "term": term,
        "sections": [one for one in sections if one.hits or one.notes or one.problem],
    }
    return respond(model_admin, request, "dbqueue/search.html", context)


def _sections(site: AdminSite, request: HttpRequest, term: str) -> Iterator[Section]:
    for model, one in site._registry.items():
        if isinstance(one, ReadOnlyAdmin) and one.has_view_permission(request):
            for alias in aliases(model):
                yield _guarded(_jobs, one, request, term, alias)
    for alias in dict.fromkeys(served.using for served in all_served()):
        yield _guarded(_failures, site, request, term, alias)
    for alias in aliases(Worker):
        yield _guarded(_workers, site, request, term, alias)


def _guarded(look: Any, *args: Any) -> Section:
    """A database that cannot be asked hides no other."""
    try:
        section: Section = look(*args)
    except Error as error:
        return Section(_("A table cannot be asked"), problem=first_line(error))
    return section


def _jobs(model_admin: Any, request: HttpRequest, term: str, alias: str) -> Section:
    model: type[Model] = model_admin.model
    site, place = model_admin.admin_site, query_of(model, alias)
    title = str(capfirst(str(model._meta.verbose_name_plural)))
    found = Section(title, list_url(site, request, model, q=term, **place))
    names = search.columns_searched(model, list(model_admin.get_search_fields(request)))
    order = order_of(model, ("-pk",))
    if names is None or order is None:  # its own search may read all of the table
        text = _("Its list searches in a way of its own.")
        found.notes = [Note(text, found.url, _("Look there"))]
        return found
    search.notes(request).clear()
    with dialect_of(connections[alias]).decode_leniently():
        rows = model_admin.get_queryset(request).using(alias)
        rows, _twice = model_admin.get_search_results(request, rows, term)
        walked = walking.walk(keyset_in(rows.order_by(), order, None), HITS_MAX)
    found.hits = [
        Hit(
            text=model_admin.describe(row)[:TEXT_MAX_CHARS],
            url=row_url(site, request, model, row.pk, alias),
            state=_state(model_admin, row),
            more=time_tag(row.created_at),
        )
        for row in walked.page.rows
    ]
    found.has_more = not walked.is_whole
    found.notes = search.leading(
        request, lambda query: list_url(site, request, model, **query, **place)
    )
    return found


def _state(model_admin: Any, row: Any) -> str:
    own = getattr(row, "mail_state_word", None)
    return str(own or model_admin.state_words.get(row.status, state_word(row.state)))


def _failures(site: AdminSite, request: HttpRequest, term: str, alias: str) -> Section:
    """Kinds of failures in whose class, place or words it is; the words are for those who may
    inspect the jobs."""
    found = Section(_("Failures"), page_url(site, "dbqueue_queue_failures"))
    for served in all_served(alias):
        url = list_url(site, request, served.model, **query_of(served.model, served.using))
        if not url:
            continue
        opts = served.model._meta
        inspect = f"{opts.app_label}.{get_permission_codename('inspect', opts)}"
        may_inspect = request.user.has_perm(inspect)
        kinds = FailureKind.objects.using(served.using).filter(job_table=served.job_table)
        for kind in kinds.order_by("-last_seen")[:KINDS_MAX]:
            words = kind.words if may_inspect else ""
            if not _is_in(term, kind, words):
                continue
            query = {"failure": kind.fingerprint, **query_of(served.model, served.using)}
            url = list_url(site, request, served.model, **query)
            text = ": ".join(filter(None, [kind.exception, words]))[:TEXT_MAX_CHARS]
            found.hits.append(Hit(text, url, more=served.title))
    found.has_more, found.hits = len(found.hits) > HITS_MAX, found.hits[:HITS_MAX]
    return found


def _is_in(term: str, kind: FailureKind, words: str) -> bool:
    """As a part of what is noted; or as an error is shown with a job: with its values, and after
    the name of its class."""
    parts = [kind.exception, kind.place, words]
    if any(term.casefold() in part.casefold() for part in parts) or _has(words, term):
        return True
    name, _, message = term.partition(": ")
    names = {kind.exception.casefold(), kind.exception.rpartition(".")[2].casefold()}
    return name.casefold() in names and _has(words, message)


def _has(words: str, message: str) -> bool:
    """But for the values, which are not in the words: nothing else would be in many of them."""
    sought = without_values(message)
    is_told = any(map(str.isalpha, VARYING.sub("", message)))
    return is_told and sought.casefold() in words.casefold()


def _workers(site: AdminSite, request: HttpRequest, term: str, alias: str) -> Section:
    """By a part of its name or host, its process, or an owner of claims, of which the beginning
    will do."""
    found = Section(_("Workers"), list_url(site, request, Worker, **query_of(Worker, alias)))
    if not found.url:
        return found
    sought = term.casefold()
    name = sought.partition(".")[0]
    for worker in Worker.objects.using(alias).order_by("-started_at")[:WORKERS_MAX]:
        is_owner = len(name) >= OWNER_MIN_CHARS and worker.uuid.startswith(name)
        parts = f"{worker.name}\n{worker.host}".casefold()
        if is_owner or sought in parts or sought == str(worker.pid):
            state = worker_state_word("stopped") if worker.stopped_at else ""
            url = row_url(site, request, Worker, worker.pk, alias)
            found.hits.append(Hit(str(worker), url, state, time_tag(worker.started_at)))
    found.has_more, found.hits = len(found.hits) > HITS_MAX, found.hits[:HITS_MAX]
    return found
