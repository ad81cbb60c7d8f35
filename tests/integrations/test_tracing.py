"""Spans from enqueueing to the run, as OpenTelemetry's own exporter has them."""

import importlib
import json
import sys
from contextlib import contextmanager
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.mail import send_mail
from django.db import IntegrityError, transaction
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from django_dbqueue import events
from django_dbqueue.exceptions import QueueFull
from django_dbqueue.integrations import tracing
from django_dbqueue.mail.models import ArchivedEmail
from django_dbqueue.models import Traced
from django_dbqueue.testing import InlineWorker, virtual_clock
from tests.kit.bounds import limits
from tests.kit.inline_worker import drain
from tests.kit.processes import worker
from tests.queueapp.models import Note, Unique
from tests.queueapp.traced import Watched, WatchedBatch, WatchedCoroutine
from tests.tasks import calls

pytestmark = pytest.mark.usefixtures("db_rows")
EXPORTER = InMemorySpanExporter()


@pytest.fixture(scope="module")
def provider():
    """A process has one for good."""
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        trace.set_tracer_provider(TracerProvider())
    provider: Any = trace.get_tracer_provider()
    provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
    return provider


@pytest.fixture
def spans(provider):
    """What was exported since, by name."""
    tracing.subscribe()
    EXPORTER.clear()
    yield lambda name: [s for s in EXPORTER.get_finished_spans() if s.name.startswith(name)]
    tracing.unsubscribe()


@contextmanager
def request():
    """As an instrumented web server makes a span of each."""
    with trace.get_tracer("web").start_as_current_span("request") as span:
        yield span


def work_off(*tables):
    with InlineWorker(*tables or ["queueapp.watched"]) as one:
        one.run()


def parent_of(span):
    return span.parent and span.parent.span_id


def ids(span):
    return span.get_span_context().trace_id, span.get_span_context().span_id


def test_a_run_is_in_the_trace_of_the_request_that_enqueued_it(spans):
    with request():
        job = Watched.objects.create(number=7)
    work_off()
    [asked], [sent], [run], [inside] = map(spans, ("request", "send", "process", "inside"))
    assert len({ids(span)[0] for span in (asked, sent, run, inside)}) == 1
    assert [parent_of(span) for span in (sent, run, inside)] == [
        ids(span)[1] for span in (asked, sent, run)
    ]
    assert (sent.kind, run.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert (sent.name, run.name) == (
        "send queueapp.watched:default",
        "process queueapp.watched:default",
    )
    common = {
        "messaging.system": "django_dbqueue",
        "messaging.destination.name": "queueapp.watched:default",
        "messaging.message.id": str(job.pk),
    }
    operation = "messaging.operation.name", "messaging.operation.type"
    assert sent.attributes == common | dict.fromkeys(operation, "send")
    assert run.attributes == common | dict.fromkeys(operation, "process") | {"dbqueue.attempt": 1}
    assert run.status.status_code == StatusCode.UNSET


@pytest.mark.parametrize("dedup_key", [None, "once"])
def test_a_job_that_finds_its_queue_full_is_told_as_an_error(spans, dedup_key):
    with limits("queueapp.watched", max_length=1):
        Watched.objects.create()
        with pytest.raises(QueueFull):
            Watched.objects.enqueue(dedup_key=dedup_key)
    _, refused = spans("send")
    assert refused.status.status_code == StatusCode.ERROR
    assert refused.attributes["error.type"] == "django_dbqueue.exceptions.QueueFull"


def test_of_many_jobs_at_once_one_span_tells_and_each_run_is_its_child(spans):
    Watched.objects.bulk_create([Watched(), Watched()])
    rows = [{"number": 1}, {"number": 2}, {"number": 3}]
    assert Watched.objects.enqueue_many(rows, queue="many") == 3
    work_off()
    two, three = spans("send")
    counts = [span.attributes["messaging.batch.message_count"] for span in (two, three)]
    assert counts == [2, 3]
    assert three.name == "send queueapp.watched:many"
    runs = spans("process")
    assert sorted(map(parent_of, runs)) == sorted([ids(two)[1]] * 2 + [ids(three)[1]] * 3)


def test_a_failed_run_is_an_error_and_each_attempt_a_span_of_the_same_trace(spans):
    Watched.objects.create(action="fail", number=3)
    with virtual_clock() as clock:
        drain(clock, "queueapp.watched")
    first, second = spans("process")
    [sent] = spans("send")
    assert parent_of(first) == parent_of(second) == ids(sent)[1]
    assert [one.attributes["dbqueue.attempt"] for one in (first, second)] == [1, 2]
    assert first.status.status_code == StatusCode.ERROR
    assert first.status.description == "nothing is known of 3"
    assert first.attributes["error.type"] == "builtins.LookupError"
    [event] = first.events
    assert event.attributes["exception.type"] == "LookupError"
    assert "in act" in event.attributes["exception.stacktrace"]


def test_a_job_that_asks_to_be_retried_is_no_error(spans):
    Watched.objects.create(action="retry")
    work_off()
    [run] = spans("process")
    assert run.status.status_code == StatusCode.UNSET
    assert run.attributes["dbqueue.outcome"] == "retry"


def test_a_job_that_asks_for_more_attempts_than_it_has_ends_with_an_error(spans):
    Watched.objects.create(action="retry")
    with virtual_clock() as clock:
        drain(clock, "queueapp.watched")
    runs = spans("process")
    assert [one.status.is_ok for one in runs] == [True, False]
    assert runs[-1].attributes["error.type"] == "django_dbqueue.exceptions.Retry"


def test_a_batch_is_a_trace_of_its_own_that_is_linked_to_those_of_its_jobs(spans):
    for _ in range(3):
        WatchedBatch.objects.create()
    work_off("queueapp.watchedbatch")
    [run] = spans("process")
    sent = spans("send")
    assert run.parent is None
    assert [(one.context.trace_id, one.context.span_id) for one in run.links] == list(
        map(ids, sent)
    )
    assert run.attributes["messaging.batch.message_count"] == 3
    assert parent_of(spans("inside 3")[0]) == ids(run)[1]


def test_a_run_may_be_linked_in_place_of_being_a_child(spans, settings):
    settings.DBQUEUE = {"TRACING": "link"}
    Watched.objects.create()
    work_off()
    [sent], [run] = spans("send"), spans("process")
    assert run.parent is None
    assert [(one.context.trace_id, one.context.span_id) for one in run.links] == [ids(sent)]


def test_a_table_without_the_column_has_spans_in_traces_of_their_own(spans):
    Note.objects.create()
    work_off("queueapp.note")
    [sent], [run] = spans("send"), spans("process")
    assert ids(sent)[0] != ids(run)[0]
    assert (run.parent, run.links) == (None, ())


def test_a_twin_that_waits_already_is_no_message(spans):
    job, _ = Watched.objects.enqueue(dedup_key="one")
    Watched.objects.enqueue(dedup_key="one")
    work_off()
    first, second = spans("send")
    assert first.attributes["messaging.message.id"] == str(job.pk)
    assert "messaging.message.id" not in second.attributes
    [run] = spans("process")
    assert parent_of(run) == ids(first)[1]


def test_an_insert_that_fails_is_an_error(spans):
    Unique.objects.create(code=1)
    with pytest.raises(IntegrityError), transaction.atomic():
        Unique.objects.create(code=1)
    _, refused = spans("send")
    assert refused.status.status_code == StatusCode.ERROR
    assert refused.attributes["error.type"] == "django.db.utils.IntegrityError"


def test_tasks_say_which_function_runs_and_which_error_they_raised(spans):
    calls.add.enqueue(1, b=2)
    calls.slow_double.enqueue(4)
    work_off("dbqueue_tasks.task", "dbqueue_tasks.asynctask")
    sent, runs = spans("send"), spans("process")
    assert sorted(map(parent_of, runs)) == sorted(ids(one)[1] for one in sent)
    names = {one.attributes["dbqueue.task"] for one in runs}
    assert names == {"tests.tasks.calls.add", "tests.tasks.calls.slow_double"}


def test_mail_keeps_its_trace_when_it_is_archived(spans, queueing):
    with request() as asked:
        send_mail("s", "b", "a@example.com", ["b@example.com"])
    work_off("dbqueue_mail.email")
    [run] = spans("process dbqueue_mail.email")
    assert ids(run)[0] == asked.get_span_context().trace_id
    assert issubclass(ArchivedEmail, Traced)


def test_what_breaks_in_tracing_is_no_jobs_failure(spans, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("no spans today")

    monkeypatch.setattr(tracing, "tracer", type("Tracer", (), {"start_span": broken})())
    job = Watched.objects.create()
    work_off()
    assert Watched.objects.done().filter(pk=job.pk).exists()


def test_what_a_hand_has_written_into_the_column_is_no_trace(spans):
    job = Watched.objects.create()
    Watched.objects.filter(pk=job.pk).update(trace_context="{nonsense")
    work_off()
    assert Watched.objects.done().filter(pk=job.pk).exists()
    [run] = spans("process")
    assert run.parent is None


def test_nothing_is_written_and_nobody_listens_while_it_is_off():
    assert tracing.enqueueing not in events.enqueueing.receivers
    assert tracing.running not in events.running.receivers
    job = Watched.objects.create()
    assert Watched.objects.get(pk=job.pk).trace_context is None


@pytest.mark.any_database
def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.delitem(sys.modules, "django_dbqueue.integrations.tracing")
    with pytest.raises(ImproperlyConfigured, match=r"install django-dbqueue\[tracing\]"):
        importlib.import_module("django_dbqueue.integrations.tracing")


def test_threads_coroutines_and_forked_children_keep_their_traces_apart(
    database_url, tmp_path, provider
):
    """What each child has not sent as it leaves is flushed, though a batch would wait for long."""
    tracing.subscribe()
    try:
        for number in range(20):
            with request():
                Watched.objects.create(number=number, action="fail" if number == 4 else "")
                ends = "complete" if number < 5 else ""  # by itself, which takes it some time
                WatchedCoroutine.objects.create(number=100 + number, action=ends)
    finally:
        tracing.unsubscribe()
    written = {
        job.number: json.loads(job.trace_context)["traceparent"].split("-")[1:3]
        for job in [*Watched.objects.all(), *WatchedCoroutine.objects.all()]
    }
    out = tmp_path / "spans"
    environment = {"DJANGO_SETTINGS_MODULE": "tests.kit.settings_traced", "SPANS": str(out)}
    given = "--processes=2", "--threads=3", "--coroutines=20", "--stop-when-empty"
    with worker(
        database_url, "queueapp.Watched", "queueapp.WatchedCoroutine", *given, **environment
    ) as one:
        assert one.end() == 0
        assert "Failed to detach" not in one.stderr
    lines = [line.partition(" ") for line in out.read_text().splitlines()]
    found = [(int(pid), json.loads(text)) for pid, _, text in lines]
    runs = {
        span["context"]["span_id"]: span for _, span in found if span["name"].startswith("process")
    }
    inside = [span for _, span in found if span["name"].startswith("inside")]
    assert len(runs) == len(inside) == 40
    for span in inside:
        run = runs[span["parent_id"]]
        trace_id, span_id = written[int(span["name"].split()[1])]
        assert span["context"]["trace_id"] == run["context"]["trace_id"] == f"0x{trace_id}"
        assert run["parent_id"] == f"0x{span_id}"
    [failed] = [run for run in runs.values() if run["status"]["status_code"] == "ERROR"]
    assert failed["attributes"]["error.type"] == "builtins.LookupError"
    assert all(pid != one.pid for pid, _ in found)
