"""OpenTelemetry spans: one where jobs are enqueued, one for each run, in the same trace.

On with ``DBQUEUE["TRACING"]``. It needs the package opentelemetry-api; the project chooses the SDK,
the exporters and the propagators. Where a span goes wrong, the job goes on.
"""

from collections.abc import Sequence
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from .. import events, signals
from ..conf import conf
from ..events import End, Enqueueing
from ..exceptions import recorded
from ..guard import capture, message_of, raised
from ..lifecycle.claim_end import asks_for_retry
from ..lifecycle.table import Table
from ..worker.buffer import GivenBack
from .fence import fenced
from .trace_column import SYSTEM, destination, has_column, key_of, put, queue_of, read

try:
    from opentelemetry import context, propagate, trace
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
except ImportError as error:
    message = "TRACING needs the package opentelemetry-api: install django-dbqueue[tracing]"
    raise ImproperlyConfigured(message) from error

CONTEXT_CHARS_MAX = 4000  # of a row; of a longer one only the trace is kept
TRACEPARENT = "traceparent"
LINKS_MAX = 100  # from one run to the traces of its jobs
FLUSH_MILLISECONDS = 5000
tracer = trace.get_tracer("django_dbqueue")


def subscribe() -> None:
    """From here on there are spans."""
    events.enqueueing.subscribe(enqueueing)
    events.running.subscribe(running)
    signals.worker_stopped.connect(flush, dispatch_uid="dbqueue-tracing")


def unsubscribe() -> None:
    events.enqueueing.unsubscribe(enqueueing)
    events.running.unsubscribe(running)
    signals.worker_stopped.disconnect(dispatch_uid="dbqueue-tracing")


def flush(**_: Any) -> None:
    """A child is about to leave without Python's own end, which would send what is left."""
    flush_provider = getattr(trace.get_tracer_provider(), "force_flush", None)
    if flush_provider is not None:
        flush_provider(FLUSH_MILLISECONDS)


def enqueueing(what: Enqueueing) -> End:
    """A span over the INSERT; its context is written into the rows that have a column for it."""
    jobs, label = what.jobs, what.model._meta.label_lower
    attributes = _attributes("send", destination(label, queue_of(what)), len(jobs))

    def begin() -> End:
        name = "send " + attributes["messaging.destination.name"]
        span = tracer.start_span(name, kind=SpanKind.PRODUCER, attributes=attributes)
        here = trace.set_span_in_context(span)
        if has_column(what.model):
            put(what, _written(here))
        token = context.attach(here)

        def end(error: BaseException | None) -> None:
            context.detach(token)
            if (key := key_of(what)) is not None and error is None:
                span.set_attribute("messaging.message.id", key)
            _end(span, error)

        return end

    return fenced("OpenTelemetry", begin)


def running(table: Table, jobs: Sequence[Any]) -> End:
    """A span over a run: a child of the one in which its job was enqueued; with several jobs, or
    with ``TRACING = "link"``, a trace of its own that is linked to theirs."""
    attributes = _attributes("process", destination(table.label, jobs[0].queue), len(jobs))
    if len(jobs) == 1:
        attributes["messaging.message.id"] = str(jobs[0].claim_key)
        attributes["dbqueue.attempt"] = jobs[0].attempts
        if task := getattr(jobs[0], "task_path", None):
            attributes["dbqueue.task"] = task

    def begin() -> End:
        origins = [found for job in jobs[:LINKS_MAX] if (found := _read(job)) is not None]
        is_child = len(jobs) == 1 and bool(origins) and conf["TRACING"] != "link"
        parent = origins[0] if is_child else Context()
        spans = [] if is_child else [trace.get_current_span(one) for one in origins]
        span = tracer.start_span(
            "process " + attributes["messaging.destination.name"],
            context=parent,
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            links=[Link(one.get_span_context()) for one in spans],
        )
        token = context.attach(trace.set_span_in_context(span, parent))

        def end(error: BaseException | None) -> None:
            context.detach(token)
            _end_run(span, table, jobs, error)

        return end

    return fenced("OpenTelemetry", begin)


def _end_run(span: Span, table: Table, jobs: Sequence[Any], error: BaseException | None) -> None:
    outcome = "released" if isinstance(error, GivenBack) else ""
    if asks_for_retry(table.policy, jobs, error):
        outcome = "retry"
    if outcome:
        span.set_attribute("dbqueue.outcome", outcome)
    _end(span, None if outcome else error)


def _end(span: Span, error: BaseException | None) -> None:
    if error is not None:
        real = raised(recorded(error))
        kind = type(real)
        span.set_attribute("error.type", f"{kind.__module__}.{kind.__qualname__}")
        span.record_exception(real)
        span.set_status(Status(StatusCode.ERROR, message_of(real)))
    span.end()


def _attributes(operation: str, destination: str, count: int) -> dict[str, Any]:
    """By the semantic conventions for messaging."""
    found: dict[str, Any] = {
        "messaging.system": SYSTEM,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": destination,
    }
    return found | ({"messaging.batch.message_count": count} if count > 1 else {})


def _written(here: Context) -> dict[str, str]:
    carrier: dict[str, str] = {}
    propagate.inject(carrier, here)
    if sum(map(len, carrier.values())) > CONTEXT_CHARS_MAX:
        carrier = {name: value for name, value in carrier.items() if name == TRACEPARENT}
    return carrier


def _read(job: Any) -> Context | None:
    """The context in which a job was enqueued; None where its row holds none."""
    found, carrier = Context(), read(job)
    if not carrier:
        return None
    with capture():  # a propagator of the project's may refuse it
        found = propagate.extract(carrier, Context())
    return found if trace.get_current_span(found).get_span_context().is_valid else None
