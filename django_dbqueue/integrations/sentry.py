"""Errors of jobs for Sentry, each once, with the job that it happened in; and its traces of them.

``sentry_sdk.init(..., integrations=[DBQueueIntegration()])``; Sentry's own for Django comes by
itself. Needs the package sentry-sdk. May be imported by the settings.
"""

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured

from .. import events, signals
from ..conf import conf
from ..events import End, Enqueueing
from ..exceptions import Bury, recorded
from ..guard import raised
from ..states import Status
from .fence import fenced, nothing
from .trace_column import SYSTEM, destination, has_column, key_of, put, queue_of, read

if TYPE_CHECKING:
    from ..lifecycle.table import Table

try:
    import sentry_sdk
    from sentry_sdk.consts import INSTRUMENTER, OP, SPANSTATUS
    from sentry_sdk.integrations import Integration
    from sentry_sdk.scope import add_global_event_processor
    from sentry_sdk.tracing import Span
    from sentry_sdk.tracing_utils import has_span_streaming_enabled, has_tracing_enabled
    from sentry_sdk.utils import event_from_exception
except ImportError as error:
    message = "this needs the package sentry-sdk: install django-dbqueue[sentry]"
    raise ImproperlyConfigured(message) from error

FLUSH_SECONDS = 2.0
SHOWN_MAX = 100  # jobs of a batch
UID = "dbqueue-sentry"
TOLD = "_dbqueue_is_told"  # an attribute of errors
# Django's own log of a task that has failed, with its error, is an event for Sentry.
LOGS_OF_TASKS = ("django.tasks", "django_tasks")


class DBQueueIntegration(Integration):
    """Each failed attempt is an event; with ``retries=False`` only one after which there is none.

    Each run has a scope of its own, also in threads and coroutines. Where Sentry's tracing is on,
    it is a transaction, too, in the trace of the request that enqueued the job; with
    ``traces=False`` it is none.
    """

    identifier = "dbqueue"

    def __init__(self, *, retries: bool = True, traces: bool = True) -> None:
        self.retries = retries
        self.traces = traces

    @staticmethod
    def setup_once() -> None:
        events.enqueueing.subscribe(enqueueing)
        events.running.subscribe(running)
        signals.job_reaped.connect(reaped, dispatch_uid=UID)
        signals.worker_stopped.connect(flush, dispatch_uid=UID)
        add_global_event_processor(told_once)


def _integration() -> DBQueueIntegration | None:
    """None where Sentry is off by now, or was initialised again without it."""
    return sentry_sdk.get_client().get_integration(DBQueueIntegration)


def told_once(event: Any, hint: Any) -> Any:
    """Sentry compares errors within a thread alone, and a worker writes outcomes in another."""
    error = ((hint or {}).get("exc_info") or (None, None))[1]
    is_second = getattr(error, TOLD, False) and event.get("logger") in LOGS_OF_TASKS
    return None if is_second else event


def flush(**_: Any) -> None:
    """A child is about to leave without Python's own end, which would send what is left."""
    sentry_sdk.flush(FLUSH_SECONDS)


def _traces(integration: DBQueueIntegration | None) -> bool:
    """Not where spans are OpenTelemetry's, which Sentry can read, nor where they are streamed."""
    options = sentry_sdk.get_client().options
    if integration is None or not integration.traces or not has_tracing_enabled(options):
        return False
    is_classic = options.get("instrumenter") == INSTRUMENTER.SENTRY
    return is_classic and not has_span_streaming_enabled(options) and not conf["TRACING"]


def enqueueing(what: Enqueueing) -> End:
    """A span over the INSERT; its trace is written into the rows that have a column for it."""

    def begin() -> End:
        if not _traces(_integration()):
            return nothing
        name = destination(what.model._meta.label_lower, queue_of(what))
        with ExitStack() as opened:
            span = opened.enter_context(sentry_sdk.start_span(op=OP.QUEUE_PUBLISH, name=name))
            _tell(span, name, len(what.jobs))
            if has_column(what.model):
                put(what, dict(span.iter_headers()))
            until_end = opened.pop_all()

        def end(error: BaseException | None) -> None:
            with until_end:
                if error is not None:
                    span.set_status(SPANSTATUS.INTERNAL_ERROR)
                elif (key := key_of(what)) is not None:
                    span.set_data("messaging.message.id", key)

        return end

    return fenced("Sentry", begin)


def running(table: "Table", jobs: Sequence[Any]) -> End:
    """A scope of its own over the run, and an event where it fails."""
    integration = _integration()
    if integration is None:
        return nothing

    def begin() -> End:
        with ExitStack() as opened:
            scope = opened.enter_context(sentry_sdk.isolation_scope())
            scope.clear_breadcrumbs()
            traced = _transaction(table.label, jobs) if _traces(integration) else None
            span = opened.enter_context(traced) if traced else None
            _describe(scope, table.label, jobs)
            # A run may end in another function than it began in, but never in another context.
            until_end = opened.pop_all()

        def end(error: BaseException | None) -> None:
            with until_end:
                status = _status_of(table, jobs, error)
                if span is not None:
                    span.set_status(status)
                has_failed = status == SPANSTATUS.INTERNAL_ERROR
                if error is not None and has_failed and _is_told(integration, table, jobs, error):
                    _send(raised(recorded(error)))

        return end

    return fenced("Sentry", begin)


def _transaction(label: str, jobs: Sequence[Any]) -> Span:
    """Of a run; in the trace in which its job was enqueued, or one of its own for several."""
    first, name = jobs[0], destination(label, jobs[0].queue)
    headers = read(first) if len(jobs) == 1 else {}
    known = {"table": label, "queue": first.queue, "task": getattr(first, "task_path", None)}
    transaction = sentry_sdk.start_transaction(
        sentry_sdk.continue_trace(headers, op=OP.QUEUE_PROCESS, name=name, source="task"),
        custom_sampling_context={"dbqueue": known},
    )
    _tell(transaction, name, len(jobs))
    if len(jobs) == 1:
        transaction.set_data("messaging.message.id", str(first.claim_key))
        transaction.set_data("messaging.message.retry.count", first.attempts - 1)
    return transaction


def _tell(span: Span, name: str, count: int) -> None:
    """By Sentry's conventions for queues, as far as a claim has read it."""
    span.set_data("messaging.system", SYSTEM)
    span.set_data("messaging.destination.name", name)
    if count > 1:
        span.set_data("messaging.batch.message_count", count)


def reaped(sender: Any, job: Any, error: BaseException | None, **_: Any) -> None:
    """A job that was stopped, or whose process died, has raised nothing that could be sent."""
    integration = _integration()
    if error is None or integration is None:
        return
    if not integration.retries and job.status != Status.BURIED:
        return
    with sentry_sdk.isolation_scope() as scope:
        _describe(scope, sender._meta.label_lower, [job])
        sentry_sdk.capture_message(f"{sender._meta.label_lower}: {error}", level="error")
    _mark(error)
    # The process ends once all is told.
    flush()


def _status_of(table: "Table", jobs: Sequence[Any], error: BaseException | None) -> str:
    # The settings may import us.
    from ..lifecycle.claim_end import asks_for_retry  # noqa: PLC0415
    from ..worker.buffer import GivenBack  # noqa: PLC0415

    if isinstance(error, GivenBack):
        return SPANSTATUS.ABORTED
    is_well = error is None or asks_for_retry(table.policy, jobs, error)
    return SPANSTATUS.OK if is_well else SPANSTATUS.INTERNAL_ERROR


def _is_told(
    integration: DBQueueIntegration, table: "Table", jobs: Sequence[Any], error: BaseException
) -> bool:
    from ..lifecycle.claim_end import is_last  # noqa: PLC0415  # the settings may import us

    return integration.retries or is_last(table.policy, jobs) or isinstance(error, Bury)


def _describe(scope: Any, label: str, jobs: Sequence[Any]) -> None:
    first = jobs[0]
    scope.set_transaction_name(f"{label}:{first.queue}", source="task")
    known = {"table": label, "queue": first.queue}
    if len(jobs) == 1:
        known |= {"id": str(first.claim_key or first.pk), "attempt": first.attempts}
        if task := getattr(first, "task_path", None):
            known["task"] = task
    for name, value in known.items():
        scope.set_tag(f"dbqueue.{name}", value)
    if len(jobs) > 1:
        known["ids"] = [str(job.claim_key) for job in jobs[:SHOWN_MAX]]
        known["count"] = len(jobs)
    scope.set_context("dbqueue", known)


def _send(error: BaseException) -> None:
    event, hint = event_from_exception(
        error,
        client_options=sentry_sdk.get_client().options,
        mechanism={"type": "dbqueue", "handled": False},
    )
    sentry_sdk.capture_event(event, hint=hint)
    _mark(error)


def _mark(error: BaseException) -> None:
    """As told; a class of theirs may take no attribute."""
    with suppress(Exception):
        setattr(error, TOLD, True)
