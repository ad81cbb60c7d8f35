"""Who works, on what, and for how long; and asking them to stop, to drain and to go on."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin, messages
from django.contrib.admin import ModelAdmin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db import DEFAULT_DB_ALIAS
from django.db.models import F, QuerySet
from django.db.utils import Error
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.defaultfilters import filesizeformat
from django.urls import path
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, override
from django.views.decorators.http import require_POST

from ..conf import conf
from ..models import Worker
from ..monitor.worker_list import running_jobs, served_by, state_of, with_ages
from ..monitor.worker_pool import WorkerPool, pool_of
from ..monitor.worker_requests import (
    UnknownWorker,
    request_drain,
    request_restart,
    request_resume,
    request_stop,
)
from ..texts.wording import duration, worker_state_word
from . import confirmation, words
from .databases import DatabaseFilter, alias_of, query_of
from .formatting import ago, number
from .pages import above_row, auto_refresh, job_url, page_url
from .permissions import ViewOnly, allows

if TYPE_CHECKING:  # at run time it takes no parameters
    WorkerBase = ModelAdmin[Worker]
else:
    WorkerBase = ModelAdmin

LIST_JOBS_MAX = 3  # that the list shows of each worker
PAGE_JOBS_MAX = 100
NOTHING = "-"
# What is done, and what is said then; the time is that to shut down.
VERBS: dict[str, tuple[Callable[..., Any], Any]] = {
    "stop": (
        request_stop,
        gettext_lazy("asked to stop: it finishes what it runs (up to %(time)s), then exits"),
    ),
    "restart": (
        request_restart,
        gettext_lazy(
            "asked to restart: it finishes what it runs (up to %(time)s), then exits to be started "
            "again"
        ),
    ),
    "drain": (
        request_drain,
        gettext_lazy("asked to drain: it claims nothing more, finishes what it has, and lives on"),
    ),
    "resume": (request_resume, gettext_lazy("asked to go on: it claims again")),
}
VERB_LABELS = {
    "stop": gettext_lazy("Ask to stop"),
    "restart": gettext_lazy("Ask to restart"),
    "drain": gettext_lazy("Ask to drain"),
    "resume": gettext_lazy("Let go on"),
}
# A mark next to each state, and what it means where that is not said by its name.
STATES = {
    "alive": ("●", ""),
    "paused": ("❚❚", gettext_lazy("claims nothing for now")),
    "draining": ("▼", gettext_lazy("claims nothing more, and lives on")),
    "stopping": ("▼", gettext_lazy("claims nothing more, and exits")),
    "silent": ("▲", gettext_lazy("counts as dead: others take over its jobs")),
    "stopped": ("■", ""),
}


@admin.register(Worker)
class WorkerAdmin(ViewOnly, WorkerBase):
    """The living workers first; those that stopped are shown for an hour, with the reason."""

    change_list_template = "dbqueue/workers.html"
    change_form_template = "dbqueue/worker.html"
    list_display: Any = ("worker", "condition", "beat", "processes", "rate", "tables", "resident")
    list_filter: ClassVar[Any] = (DatabaseFilter,)
    list_per_page = 50
    actions: Any = ("stop_selected", "restart_selected", "drain_selected", "resume_selected")
    has_stop_permission = allows("stop")

    class Media:
        names = ("admin", "charts", "overview", "search")
        css = {"all": [f"dbqueue/{name}.css" for name in names]}
        js = ("dbqueue/live.js", "dbqueue/keys.js")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Worker]:
        rows: QuerySet[Worker] = with_ages(Worker.objects.using(alias_of(request, Worker)))
        return rows

    def get_ordering(self, request: HttpRequest) -> Any:
        return (F("stopped_at").asc(nulls_first=True), "-started_at")

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        return [*self.list_display, self._runs(request, LIST_JOBS_MAX)]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return [
            *self.list_display,
            "uuid",
            "started_at",
            "beat_at",
            "queues",
            "decisions",
            self._runs(request, PAGE_JOBS_MAX),
        ]

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return self.get_readonly_fields(request, obj)

    def get_urls(self) -> list[Any]:
        ask = self.admin_site.admin_view(require_POST(self.ask_view))
        return [path("<path:object_id>/ask/", ask, name="dbqueue_worker_ask"), *super().get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        context = {"title": _("Workers"), **auto_refresh(request), **(extra_context or {})}
        context["dbqueue_words"] = list(words.others(words.OF_WORKERS))
        try:
            return super().changelist_view(request, context)
        except Error as error:
            if alias_of(request, Worker) == DEFAULT_DB_ALIAS:
                raise
            text = _("Database %(name)s cannot be asked: %(why)s")
            text %= {"name": repr(alias_of(request, Worker)), "why": error}
            self.message_user(request, text, messages.ERROR)
            return HttpResponseRedirect(page_url(self.admin_site, "index"))

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        verbs = VERB_LABELS if self.has_stop_permission(request) else {}
        ask = {"verbs": verbs, "ask_url": self._url(request, "ask", object_id)}
        context = {**auto_refresh(request), **ask, **above_row(self, request)}
        context |= {"show_close": True, **(extra_context or {})}
        context["dbqueue_words"] = list(words.others(words.OF_WORKERS))
        return super().change_view(request, object_id, form_url, context)

    def ask_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The buttons of a worker's page."""
        verb = request.POST.get("verb", "")
        if not self.has_stop_permission(request):
            raise PermissionDenied
        worker = self.get_queryset(request).filter(pk=unquote(object_id)).first()
        if worker is None or verb not in VERBS:
            raise Http404(_("No such worker, or nothing that it can be asked for."))
        self._ask(request, [worker], verb)
        return HttpResponseRedirect(self._url(request, "change", object_id))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # Without its row a dead worker is missed by nobody, and its jobs wait for their time.
        return False

    @admin.action(description=gettext_lazy("Ask to stop"), permissions=["stop"])
    def stop_selected(self, request: HttpRequest, queryset: QuerySet[Worker]) -> None:
        self._ask(request, queryset, "stop")

    @admin.action(description=gettext_lazy("Ask to restart"), permissions=["stop"])
    def restart_selected(self, request: HttpRequest, queryset: QuerySet[Worker]) -> None:
        self._ask(request, queryset, "restart")

    @admin.action(
        description=gettext_lazy("Ask to drain: claim nothing more"), permissions=["stop"]
    )
    def drain_selected(self, request: HttpRequest, queryset: QuerySet[Worker]) -> None:
        self._ask(request, queryset, "drain")

    @admin.action(description=gettext_lazy("Let go on after draining"), permissions=["stop"])
    def resume_selected(self, request: HttpRequest, queryset: QuerySet[Worker]) -> None:
        self._ask(request, queryset, "resume")

    def _ask(self, request: HttpRequest, workers: Iterable[Any], verb: str) -> None:
        do, words = VERBS[verb]
        with override(None):  # for the log
            logged = f"{verb}: {words % {'time': duration(conf['SHUTDOWN_TIMEOUT'])}}"
        said = words % {"time": duration(conf["SHUTDOWN_TIMEOUT"])}
        for worker in workers:
            try:
                do(worker.uuid, alias_of(request, Worker))
            except UnknownWorker:
                text = _("Worker %(worker)s: not alive, so that nothing was asked of it.")
                text %= {"worker": worker}
                self.message_user(request, text, messages.WARNING)
            else:
                confirmation.log(request, [worker], logged)
                text = _("Worker %(worker)s: %(said)s.") % {"worker": worker, "said": said}
                self.message_user(request, text, messages.SUCCESS)

    def _url(self, request: HttpRequest, name: str, key: str) -> str:
        query = query_of(Worker, alias_of(request, Worker))
        return page_url(self.admin_site, f"dbqueue_worker_{name}", key, **query)

    def _runs(self, request: HttpRequest, most: int) -> Callable[[Worker], SafeString | str]:
        """What a worker runs, with a link to each job that may be seen, and for how long: the time
        at the last beat, and what has passed since."""

        @admin.display(description=gettext_lazy("runs"))
        def runs(worker: Any) -> SafeString | str:
            jobs, since_beat = running_jobs(worker), max(0.0, worker.beat_age or 0)
            lines = []
            for job, seconds in jobs[:most]:
                url = job_url(self.admin_site, request, job, worker._state.db)
                link = (
                    format_html('<a href="{}">{}</a>', url, job) if url else format_html("{}", job)
                )
                age = ""
                if seconds is not None:
                    age = _("for %(time)s") % {"time": duration(seconds + since_beat)}
                lines.append((format_html("{} {}", link, age),))
            if jobs[most:]:
                more = len(jobs[most:])
                text = ngettext("and %(number)s more", "and %(number)s more", more)
                lines.append((format_html("{}", text % {"number": number(more)}),))
            return format_html_join("", '<span class="dbqueue-run">{}</span>', lines) or NOTHING

        return runs

    @admin.display(description=gettext_lazy("worker"), ordering="host")
    def worker(self, worker: Worker) -> SafeString:
        host = {"name": worker.name, "host": worker.host}
        return format_html(
            '{} <span class="dbqueue-quiet">{}, <span class="dbqueue-whole">{}</span></span>',
            _("%(name)s on %(host)s") % host if worker.name else worker.host,
            _("pid %(number)s") % {"number": worker.pid},
            worker.uuid[:8],
        )

    @admin.display(description=gettext_lazy("state"))
    def condition(self, worker: Any) -> SafeString:
        state = state_of(worker)
        mark, means = STATES[state]
        said = [text for text in (means, worker.stop_reason, worker.trouble) if text]
        return format_html(
            '<span class="dbqueue-state dbqueue-state-{}"><span class="dbqueue-icon" '
            'aria-hidden="true">{}</span> {}</span>{}',
            *(state, mark, worker_state_word(state)),
            format_html_join("", '<span class="dbqueue-reason">{}</span>', ((t,) for t in said)),
        )

    @admin.display(description=gettext_lazy("last beat"), ordering="beat_at")
    def beat(self, worker: Any) -> str:
        return ago(worker.beat_age) or NOTHING

    @admin.display(description=gettext_lazy("processes"))
    def processes(self, worker: Worker) -> SafeString | str:
        """With why there are no more, or what was decided last."""
        pool = pool_of(worker)
        said = pool.held or next((one.text for one in pool.decisions), "")
        reason = format_html('<span class="dbqueue-reason">{}</span>', said) if said else ""
        return format_html("{}{}", _processes(pool) if pool.most else NOTHING, reason)

    @admin.display(description=gettext_lazy("processes by queue"))
    def queues(self, worker: Worker) -> str:
        named = [f"{name} {count}" for name, count in pool_of(worker).queues.items()]
        return ", ".join(named) or _("each serves all queues")

    @admin.display(description=gettext_lazy("decisions on processes"))
    def decisions(self, worker: Worker) -> SafeString | str:
        lines = [(f"{ago(one.seconds)}: {one.text}",) for one in pool_of(worker).decisions]
        return format_html_join("", '<span class="dbqueue-run">{}</span>', lines) or NOTHING

    @admin.display(description=gettext_lazy("jobs per minute"), ordering="jobs_per_minute")
    def rate(self, worker: Worker) -> str:
        is_number = isinstance(worker.jobs_per_minute, int)
        return number(worker.jobs_per_minute) if is_number else str(worker.jobs_per_minute)

    @admin.display(description=gettext_lazy("serves"))
    def tables(self, worker: Worker) -> str:
        return ", ".join(served_by(worker)) or _("nothing: it only reaps")

    @admin.display(description=gettext_lazy("memory"), ordering="memory")
    def resident(self, worker: Worker) -> str:
        return filesizeformat(worker.memory) if worker.memory else _("unknown")


def _processes(pool: WorkerPool) -> str:
    """``3 of 1-8``, or ``2`` where the number is fixed."""
    if pool.least == pool.most:
        return number(pool.processes)
    text = _("%(number)s of %(least)s-%(most)s")
    return text % {"number": pool.processes, "least": pool.least, "most": pool.most}
