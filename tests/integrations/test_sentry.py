"""What Sentry is told of jobs, as its own SDK hands it to the transport."""

import importlib
import json
import sys

import pytest
import sentry_sdk
from django.core.exceptions import ImproperlyConfigured
from sentry_sdk.integrations.logging import LoggingIntegration
from sentry_sdk.transport import Transport

from django_dbqueue import events, signals
from django_dbqueue.integrations import sentry
from django_dbqueue.integrations.sentry import DBQueueIntegration
from django_dbqueue.states import Status
from django_dbqueue.tasks.models import Task
from django_dbqueue.testing import virtual_clock
from tests.kit.inline_worker import drain, work_off
from tests.kit.jobs import fresh, overwrite
from tests.kit.processes import worker
from tests.queueapp.models import Fetched, FetchedEach, Note
from tests.queueapp.traced import Watched, WatchedBatch, WatchedCoroutine
from tests.tasks import calls

pytestmark = pytest.mark.usefixtures("db_rows")
DSN = "https://public@sentry.example.com/1"


@pytest.fixture
def start():
    """Initialise the SDK; the events that it hands on are in the list, and so are transactions with
    a sampler of traces. Its integrations that change other packages are left to the test of a
    process."""
    found = []

    class Local(Transport):
        def capture_envelope(self, envelope):
            found.append(envelope.get_event() or envelope.get_transaction_event())

    def begin(traces=None, of_jobs=True, options=None, others=(), **given):
        # For once in a process it subscribes by itself.
        DBQueueIntegration.setup_once()
        sentry_sdk.init(
            DSN,
            transport=Local,
            default_integrations=False,
            integrations=[DBQueueIntegration(traces=of_jobs, **given), *others],
            **({} if traces is None else {"traces_sampler": traces}),
            **(options or {}),
        )
        return found

    yield begin
    sentry_sdk.get_global_scope().set_client(None)
    events.enqueueing.unsubscribe(sentry.enqueueing)
    events.running.unsubscribe(sentry.running)
    for signal in (signals.job_reaped, signals.worker_stopped):
        signal.disconnect(dispatch_uid=sentry.UID)


def test_a_failed_attempt_is_one_event_with_its_job(start):
    found = start()
    job = Watched.objects.create(action="report", number=5, queue="slow")
    work_off("queueapp.watched")
    [event] = found
    [error] = event["exception"]["values"]
    assert (error["type"], error["value"]) == ("LookupError", "nothing is known of 5")
    assert error["mechanism"] == {"type": "dbqueue", "handled": False}
    assert [frame["function"] for frame in error["stacktrace"]["frames"]][-1] == "report"
    assert event["level"] == "error"
    assert event["transaction"] == "queueapp.watched:slow"
    known = {"table": "queueapp.watched", "queue": "slow", "id": str(job.pk), "attempt": 1}
    assert event["contexts"]["dbqueue"] == known
    tags = {f"dbqueue.{name}": value for name, value in known.items()}
    assert event["tags"] == tags | {"mine": "5"}


def test_what_one_job_leaves_in_its_scope_is_no_other_jobs(start):
    found = start()
    for number in range(3):
        Watched.objects.create(action="report", number=number)
    sentry_sdk.add_breadcrumb(message="from outside")
    work_off("queueapp.watched")
    crumbs = [[one["message"] for one in event["breadcrumbs"]["values"]] for event in found]
    assert crumbs == [["crumb 0"], ["crumb 1"], ["crumb 2"]]
    assert "mine" not in sentry_sdk.get_isolation_scope()._tags


def test_each_attempt_is_told_or_only_the_last_one(start):
    found = start()
    Watched.objects.create(action="fail")
    with virtual_clock() as clock:
        drain(clock, "queueapp.watched")
    assert [event["tags"]["dbqueue.attempt"] for event in found] == [1, 2]
    found.clear()
    start(retries=False)
    Watched.objects.create(action="fail")
    Note.objects.create(action="bury")
    with virtual_clock() as clock:
        drain(clock, "queueapp.watched", "queueapp.note")
    assert [event["tags"].get("dbqueue.attempt") for event in found] == [1, 2]
    assert [event["tags"]["dbqueue.table"] for event in found] == [
        "queueapp.note",
        "queueapp.watched",
    ]


def test_a_job_that_asks_to_be_retried_has_no_error(start):
    found = start()
    Watched.objects.create(action="retry")
    Watched.objects.create()
    work_off("queueapp.watched")
    assert found == []


@pytest.mark.parametrize("retries", [True, False])
def test_a_job_that_asks_for_more_attempts_than_it_has_is_told_as_it_is_buried(start, retries):
    found = start(always, retries=retries)
    job = Watched.objects.create(action="retry")
    with virtual_clock() as clock:
        drain(clock, "queueapp.watched")
    assert fresh(job).status == Status.BURIED
    [event] = [one for one in found if "exception" in one]
    assert event["exception"]["values"][-1]["value"] == "come back later"
    assert event["tags"]["dbqueue.attempt"] == 2
    statuses = [one["contexts"]["trace"]["status"] for one in found if "spans" in one]
    assert statuses == ["ok", "internal_error"]


def test_a_worker_s_own_tries_say_which_attempt_is_the_last(start):
    found = start()
    Watched.objects.create(action="retry")
    work_off("queueapp.watched", "--tries", "1")
    assert [event["tags"]["dbqueue.attempt"] for event in found] == [1]


def test_the_error_of_a_task_is_the_one_that_it_raised(start):
    found = start()
    calls.add.enqueue("one", b=2)
    work_off("dbqueue_tasks.task")
    [event] = found
    assert event["exception"]["values"][-1]["type"] == "TypeError"
    assert event["tags"]["dbqueue.task"] == "tests.tasks.calls.add"


@pytest.mark.parametrize(
    "function", [calls.fail, calls.fail_thrice, calls.give_up, calls.leave, calls.unstorable]
)
def test_what_djangos_log_says_of_a_failed_task_is_no_second_event(start, function):
    found = start(others=[LoggingIntegration()])
    result = function.enqueue()
    with virtual_clock() as clock:
        drain(clock, "dbqueue_tasks.task")
    result.refresh()
    assert result.status == "FAILED"
    assert len(found) == result.attempts
    assert {event["tags"]["dbqueue.table"] for event in found} == {"dbqueue_tasks.task"}


def test_of_a_batch_the_jobs_are_told(start, monkeypatch):
    def broken(jobs):
        raise LookupError("all of them")

    found = start()
    monkeypatch.setattr(WatchedBatch, "run_batch", broken)
    jobs = [WatchedBatch.objects.create() for _ in range(3)]
    work_off("queueapp.watchedbatch")
    [event] = found
    known = event["contexts"]["dbqueue"]
    assert (known["count"], known["ids"]) == (3, [str(job.pk) for job in jobs])
    assert "dbqueue.id" not in event["tags"]


def test_what_breaks_in_sentry_is_no_jobs_failure(start, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("no events today")

    start()
    monkeypatch.setattr(sentry, "_describe", broken)
    job = Watched.objects.create()
    log = work_off("queueapp.watched")
    assert Watched.objects.done().filter(pk=job.pk).exists()
    assert "Sentry could not be told of a job: no events today" in log


def always(_):
    return 1.0


def test_a_run_is_a_transaction_in_the_trace_of_its_request(start):
    found = start(traces=always)
    with sentry_sdk.start_transaction(op="http.server", name="order") as request:
        job = Watched.objects.create(queue="slow")
    work_off("queueapp.watched")
    [order, run] = found
    [enqueued] = order["spans"]
    assert (enqueued["op"], enqueued["description"]) == ("queue.publish", "queueapp.watched:slow")
    assert enqueued["data"]["messaging.message.id"] == str(job.pk)
    trace = run["contexts"]["trace"]
    assert (run["transaction"], trace["op"]) == ("queueapp.watched:slow", "queue.process")
    assert (trace["trace_id"], trace["parent_span_id"]) == (request.trace_id, enqueued["span_id"])
    assert trace["status"] == "ok"
    told = {name: trace["data"][f"messaging.{name}"] for name in ("system", "destination.name")}
    assert told == {"system": "django_dbqueue", "destination.name": "queueapp.watched:slow"}
    assert trace["data"]["messaging.message.id"] == str(job.pk)
    assert trace["data"]["messaging.message.retry.count"] == 0
    assert run["contexts"]["dbqueue"]["id"] == str(job.pk)


def test_an_attempt_that_failed_is_a_transaction_with_its_error(start):
    found = start(traces=always, retries=False)
    Watched.objects.create(action="fail")
    with virtual_clock() as clock:
        drain(clock, "queueapp.watched")
    [first, event, second] = found
    for run, attempt in ((first, 1), (second, 2)):
        assert run["contexts"]["trace"]["status"] == "internal_error"
        assert run["contexts"]["trace"]["data"]["messaging.message.retry.count"] == attempt - 1
    assert event["contexts"]["trace"]["span_id"] == second["contexts"]["trace"]["span_id"]


def test_a_job_that_asks_to_be_retried_is_a_transaction_that_went_well(start):
    found = start(traces=always)
    Watched.objects.create(action="retry")
    work_off("queueapp.watched")
    assert [run["contexts"]["trace"]["status"] for run in found] == ["ok"]


def test_the_sampler_sees_what_runs_and_the_request_decides_for_its_jobs(start):
    seen = []

    def sampler(context):
        seen.append(context)
        return 0.0 if context["parent_sampled"] is None else float(context["parent_sampled"])

    found = start(traces=sampler)
    with sentry_sdk.start_transaction(name="order"):
        calls.add.enqueue(1, b=2)
    work_off("dbqueue_tasks.task")
    assert found == []
    known = {"table": "dbqueue_tasks.task", "queue": "default", "task": "tests.tasks.calls.add"}
    assert seen[1]["dbqueue"] == known
    assert (seen[1]["parent_sampled"], seen[1]["transaction_context"]["op"]) == (
        False,
        "queue.process",
    )


def test_a_batch_is_one_transaction_and_coroutines_have_their_own(start):
    found = start(traces=always)
    WatchedBatch.objects.bulk_create([WatchedBatch() for _ in range(3)])
    work_off("queueapp.watchedbatch")
    [batch] = found
    assert batch["contexts"]["trace"]["data"]["messaging.batch.message_count"] == 3
    found.clear()
    for number in range(3):
        WatchedCoroutine.objects.create(number=number)
    work_off("queueapp.watchedcoroutine")
    assert len({run["contexts"]["trace"]["trace_id"] for run in found}) == 3


@pytest.mark.parametrize("text", ["no json", "[1]", '{"sentry-trace": "x", "baggage": "%"}'])
def test_a_row_that_a_hand_has_written_is_traced_by_itself(start, text):
    found = start(traces=always)
    job = Watched.objects.create()
    Watched.objects.filter(pk=job.pk).update(trace_context=text)
    work_off("queueapp.watched")
    assert len(found) == 1
    assert Watched.objects.done().filter(pk=job.pk).exists()


def test_with_tracing_on_the_spans_are_left_to_opentelemetry(start, settings):
    found = start(traces=always)
    settings.DBQUEUE = {"TRACING": True}
    Watched.objects.create(action="report")
    work_off("queueapp.watched")
    assert [event["level"] for event in found] == ["error"]


def test_a_span_that_breaks_as_it_begins_is_not_left_open(start, monkeypatch):
    def broken(*_):
        raise RuntimeError("no headers today")

    start(traces=always)
    monkeypatch.setattr(sentry, "put", broken)
    with sentry_sdk.start_transaction(name="order") as order:
        job = Watched.objects.create()
        assert sentry_sdk.get_current_scope().span is order
    assert Watched.objects.get(pk=job.pk).trace_context is None


def test_where_nobody_traces_a_context_of_the_callers_own_is_kept(start):
    start(traces=always)
    job = Watched.objects.create(trace_context='{"traceparent": "mine"}')
    assert Watched.objects.get(pk=job.pk).trace_context == '{"traceparent": "mine"}'


@pytest.mark.parametrize(
    "more", [{"instrumenter": "otel"}, {"_experiments": {"trace_lifecycle": "stream"}}]
)
def test_where_sentry_makes_its_spans_in_another_way_ours_are_none(start, more, recwarn):
    found = start(traces=always, options=more)
    Watched.objects.create(action="report")
    work_off("queueapp.watched")
    assert [event["level"] for event in found] == ["error"]
    assert [str(one.message) for one in recwarn if "streaming" in str(one.message)] == []


def test_a_project_may_have_traces_without_those_of_jobs(start):
    found = start(traces=always, of_jobs=False)
    with sentry_sdk.start_transaction(name="order"):
        Watched.objects.create()
    work_off("queueapp.watched")
    assert [event["transaction"] for event in found] == ["order"]


def test_without_a_rate_of_traces_there_is_none(start):
    found = start()
    with sentry_sdk.start_transaction(name="order"):
        job = Watched.objects.create()
    work_off("queueapp.watched")
    assert found == []
    assert Watched.objects.get(pk=job.pk).trace_context is None


@pytest.mark.any_database
def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentry_sdk", None)
    monkeypatch.delitem(sys.modules, "django_dbqueue.integrations.sentry")
    with pytest.raises(ImproperlyConfigured, match=r"install django-dbqueue\[sentry\]"):
        importlib.import_module("django_dbqueue.integrations.sentry")


def test_a_job_over_its_time_to_run_is_told_though_it_raised_nothing(start):
    found = start()
    job = Watched.objects.create(time_to_run=5)
    Watched.objects.claim()
    with virtual_clock() as clock:
        clock.move(3600)
        work_off("queueapp.watched")
    [event] = found
    assert event["message"].startswith("queueapp.watched: its time to run was over")
    assert event["tags"]["dbqueue.id"] == str(job.pk)


def test_a_task_over_its_time_to_run_is_told_once_whatever_djangos_log_says(start):
    found = start(others=[LoggingIntegration()])
    result = calls.noop.enqueue()
    Task.objects.claim()
    with virtual_clock() as clock:
        clock.move(86_400)
        work_off("dbqueue_tasks.task")
    result.refresh()
    assert result.status == "FAILED"
    [event] = found
    assert event["message"].startswith("dbqueue_tasks.task: its time to run was over")


def test_without_retries_a_job_over_its_time_is_told_once_it_is_buried(start):
    found, told = start(retries=False), []
    job = Watched.objects.create(time_to_run=5)
    with virtual_clock() as clock:
        for _ in range(2):
            overwrite(job, status=Status.READY, retry_at=None)
            assert Watched.objects.claim()
            clock.move(3600)
            work_off("queueapp.watched")
            told.append([event["tags"]["dbqueue.attempt"] for event in found])
    assert told == [[], [2]]
    assert Watched.objects.buried().count() == 1


def test_threads_and_coroutines_each_tell_once_of_their_own(database_url, tmp_path):
    """With Django's own integration; what each child has not sent as it leaves is flushed."""
    for number in range(6):
        Watched.objects.create(number=number, action="report")
        WatchedCoroutine.objects.create(number=100 + number, action="report")
    out = tmp_path / "events"
    given = "--processes=2", "--threads=3", "--coroutines=6", "--stop-when-empty"
    environment = {"DJANGO_SETTINGS_MODULE": "tests.kit.settings_sentry", "EVENTS": str(out)}
    tables = "queueapp.Watched", "queueapp.WatchedCoroutine"
    with worker(database_url, *tables, *given, **environment) as one:
        assert one.end() == 0
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(found) == 12
    jobs = [*Watched.objects.all(), *WatchedCoroutine.objects.all()]
    keys = {job.number: str(job.pk) for job in jobs}
    for event in found:
        number = int(event["tags"]["mine"])
        assert event["tags"]["dbqueue.id"] == keys.pop(number)
        crumbs = [crumb["message"] for crumb in event["breadcrumbs"]["values"]]
        assert [crumb for crumb in crumbs if crumb.startswith("crumb")] == [f"crumb {number}"]
        assert event["pid"] != one.pid
    assert keys == {}


def test_without_retries_a_coroutine_is_told_that_only_its_end_shows_to_fail_for_good(
    database_url, tmp_path
):
    """The row that it asks for is gone; a column cannot hold its result."""
    Fetched.objects.create(action="look_at_sitter", sitter_id=404)
    FetchedEach.objects.create(text="unfit")
    out = tmp_path / "events"
    tables = "queueapp.Fetched", "queueapp.FetchedEach"
    given = "--coroutines=6", "--stop-when-empty"
    environment = {"DJANGO_SETTINGS_MODULE": "tests.kit.settings_sentry", "EVENTS": str(out)}
    with worker(database_url, *tables, *given, RETRIES="0", **environment) as one:
        assert one.end() == 0
    found = [json.loads(line) for line in out.read_text().splitlines()]
    told = [(e["tags"]["dbqueue.table"], e["exception"]["values"][-1]["type"]) for e in found]
    assert sorted(told) == [("queueapp.fetched", "Bury"), ("queueapp.fetchedeach", "TypeError")]
