"""What Prometheus is told, as its own parser reads it."""

import math
import re
from pathlib import Path

import promql_parser
import pytest
import yaml
from django.contrib.auth.models import AnonymousUser, Permission, User
from django.db import connection
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_families
from prometheus_client.parser import text_string_to_metric_families

from django_dbqueue import events
from django_dbqueue.fields import DbNow
from django_dbqueue.lifecycle.table import table_of
from django_dbqueue.metrics import counting, numbers, recorder, snapshot
from django_dbqueue.metrics.catalogue import OF_QUEUES, OF_WORKER
from django_dbqueue.metrics.prometheus import encoded, metrics_view, queue_families
from django_dbqueue.metrics.recorder import RECORDER, add
from django_dbqueue.metrics.roll_up import prune
from django_dbqueue.models import Minute, Queue, TableCount, Total
from django_dbqueue.models.total import UNCHANGED_KEPT
from django_dbqueue.testing import virtual_clock
from django_dbqueue.worker.served import Served
from tests.kit.bounds import limits
from tests.kit.counting import count_all
from tests.kit.inline_worker import drain, work_off
from tests.kit.jobs import overwrite
from tests.kit.overview import Away, a_worker
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")
DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE, EXAMPLES = DOCS / "observability.md", DOCS / "examples"
METRICS = [*OF_QUEUES.values(), *OF_WORKER.values()]
NOTES = {"database": "default", "table": "queueapp.note"}


@pytest.fixture(autouse=True)
def nothing_from_before():
    """Other tests run jobs in this process, too."""
    recorder._forget()


def scrape(*served):
    """By name and labels, what is told of the notes."""
    body, _ = encoded(queue_families(served or [Served(Note, "default")]))
    return samples(text_string_to_metric_families(body.decode()))


def samples(families):
    return {
        (one.name, tuple(sorted(one.labels.items()))): one.value
        for family in families
        for one in family.samples
    }


def of(found, name, **labels):
    return found[name, tuple(sorted({**NOTES, **labels}.items()))]


def test_a_scrape_tells_what_waits_what_was_done_and_who_works():
    a_worker()
    Note.objects.create(queue="done")
    Note.objects.create(action="bury", queue="done")
    work_off("queueapp.note:done")
    Note.objects.create()
    Note.objects.enqueue(delay=600)
    Note.objects.pause("slow")
    Note.objects.filter(queue="default", status=0).update(created_at=DbNow(plus=-120))
    found = scrape()
    states = ["ready", "claimed", "delayed", "buried"]
    told = [of(found, "dbqueue_jobs", queue="default", state=state) for state in states]
    assert told == [1, 0, 1, 0]
    assert of(found, "dbqueue_jobs", queue="done", state="buried") == 1
    assert 119 < of(found, "dbqueue_oldest_ready_job_age_seconds", queue="default") < 600
    assert of(found, "dbqueue_jobs_completed_total", queue="done") == 1
    assert of(found, "dbqueue_attempts_failed_total", queue="done") == 1
    assert of(found, "dbqueue_jobs_buried_total", queue="done") == 1
    paused = [of(found, "dbqueue_queue_paused", queue=queue) for queue in ("slow", "default")]
    assert paused == [1, 0]
    assert of(found, "dbqueue_queue_workers", queue="default") == 1
    assert found["dbqueue_workers", (("database", "default"), ("state", "alive"))] == 1
    assert found["dbqueue_up", (("database", "default"),)] == 1


@pytest.mark.parametrize(
    "pause", [lambda: Note.objects.pause("*"), Queue.objects.pause_everything], ids=["table", "all"]
)
def test_a_pause_of_more_than_the_queue_is_told(pause):
    Note.objects.create()
    pause()
    assert of(scrape(), "dbqueue_queue_paused", queue="default") == 1


def test_a_lane_is_served_and_paused_with_its_queue():
    with limits(rate="5/s", rate_key="{text}"):
        Note.objects.create(text="smtp")
        a_worker(serves=["queueapp.note:default"])
        assert of(scrape(), "dbqueue_queue_workers", queue="default@smtp") == 1
        Note.objects.pause("default")
        assert of(scrape(), "dbqueue_queue_paused", queue="default@smtp") == 1


def test_times_are_histograms_with_a_sum_and_a_count():
    table = table_of(Note, "default")
    events.completed(table, [(Note(), 0.02), (Note(), 0.02), (Note(), 4000)])
    RECORDER.waited(table, "default", 2.5)
    RECORDER.write()
    found = scrape()

    def buckets(name):
        named = [(dict(labels), n) for (one, labels), n in found.items() if one == f"{name}_bucket"]
        return {float(labels["le"]): n for labels, n in named}

    ran = buckets("dbqueue_job_run_seconds")
    assert [ran[0.01], ran[0.03], ran[3600.0], ran[math.inf]] == [0, 2, 2, 3]
    assert of(found, "dbqueue_job_run_seconds_count", queue="default") == 3
    assert of(found, "dbqueue_job_run_seconds_sum", queue="default") == pytest.approx(4000.04)
    waited = buckets("dbqueue_job_wait_seconds")
    assert [waited[1.0], waited[3.0]] == [0, 1]
    assert of(found, "dbqueue_job_wait_seconds_sum", queue="default") == 2.5


def test_counters_go_on_over_processes_restarts_and_old_minutes():
    for _ in range(3):  # each as a worker of its own
        Note.objects.create()
        work_off("queueapp.note")
        recorder._forget()
    add(("default", Note._meta.db_table, "default"), {"completed": 5, "ran_seconds": 0.5})
    Minute.objects.all().delete()
    prune("default")
    assert of(scrape(), "dbqueue_jobs_completed_total", queue="default") == 8


def test_what_expired_was_reaped_lost_or_tried_again_is_counted():
    Note.objects.create(expires_at=DbNow(plus=60))
    with virtual_clock() as clock:
        clock.move(90)
        drain(clock, "queueapp.note")
    Note.objects.create()
    [job] = Note.objects.claim()
    table = table_of(Note, "default")
    events.lost(table, job, "somebody", "")
    with virtual_clock() as clock:
        clock.move(3600)
        drain(clock, "queueapp.note")
    events.retried("default")
    RECORDER.write()
    found = scrape()
    names = ["jobs_expired", "jobs_reaped", "claims_lost"]
    told = [of(found, f"dbqueue_{name}_total", queue="default") for name in names]
    assert told == [1, 1, 1]
    assert found["dbqueue_statements_retried_total", (("database", "default"),)] >= 1


def test_a_hundred_queues_have_labels_and_the_others_share_one():
    for number in range(104):
        add(("default", Note._meta.db_table, f"customer{number:03}"), {"completed": 1})
    Note.objects.bulk_create([Note(queue=f"customer{n:03}") for n in range(120)])
    found = scrape()
    done = [key for key in found if key[0] == "dbqueue_jobs_completed_total"]
    assert len(done) == 101
    assert of(found, "dbqueue_jobs_completed_total", queue="(other)") == 4
    ready = {
        dict(labels)["queue"]: n
        for (name, labels), n in found.items()
        if name == "dbqueue_jobs" and dict(labels)["state"] == "ready"
    }
    assert len(ready) == 101
    assert ready["(other)"] == 20
    assert sum(ready.values()) == 120


def test_a_state_with_many_jobs_is_told_as_it_was_counted_or_says_that_there_are_more(monkeypatch):
    monkeypatch.setattr(numbers, "FEW", 4)
    Note.objects.bulk_create([Note(queue=queue) for queue in ("a", "b") for _ in range(7)])
    found = scrape()
    told = [of(found, "dbqueue_jobs", queue=queue, state="ready") for queue in ("a", "b")]
    assert told == [4, 4]
    assert of(found, "dbqueue_jobs_capped", state="ready") == 1
    assert of(found, "dbqueue_jobs_capped", state="buried") == 0
    count_all(Note)
    TableCount.objects.update(counted_at=DbNow(plus=-90))
    found = scrape()
    told = [of(found, "dbqueue_jobs", queue=queue, state="ready") for queue in ("a", "b")]
    assert told == [7, 7]
    assert of(found, "dbqueue_jobs_capped", state="ready") == 0
    assert 90 <= of(found, "dbqueue_jobs_counted_age_seconds", state="ready") < 300
    assert of(found, "dbqueue_jobs_counted_age_seconds", state="buried") == 0


def test_before_anybody_has_counted_jobs_of_further_queues_are_not_taken_for_none(monkeypatch):
    monkeypatch.setattr(numbers, "FEW", 4)
    monkeypatch.setattr(snapshot, "QUEUES_MAX", 2)
    Note.objects.bulk_create([Note(queue=queue) for queue in "aabbbccc"])
    found = scrape()
    assert [of(found, "dbqueue_jobs", queue=queue, state="ready") for queue in "ab"] == [2, 3]
    assert of(found, "dbqueue_jobs_capped", state="ready") == 1
    count_all(Note)
    found = scrape()
    assert of(found, "dbqueue_jobs_capped", state="ready") == 0
    assert sum(n for (name, labels), n in found.items() if is_ready(name, labels)) == 8


def test_queues_without_labels_of_their_own_are_added_up_however_many_they_are(monkeypatch):
    monkeypatch.setattr(numbers, "FEW", 50)
    monkeypatch.setattr(counting, "QUEUES_MAX", 105)
    Note.objects.bulk_create([Note(queue=f"customer{n:03}") for n in range(120)])
    count_all(Note)
    found = scrape()
    ready = [n for (name, labels), n in found.items() if is_ready(name, labels)]
    assert len(ready) == 101
    assert sum(ready) == 120


@pytest.mark.parametrize("told_apart", [40, 400])
def test_a_scrape_counts_a_hundred_queues_and_no_queue_twice(monkeypatch, told_apart):
    def look():
        with CaptureQueriesContext(connection) as asked:
            found = scrape()
        return len(asked), [n for (name, labels), n in found.items() if is_ready(name, labels)]

    monkeypatch.setattr(numbers, "FEW", 50)
    monkeypatch.setattr(counting, "QUEUES_MAX", told_apart)
    monkeypatch.setattr(snapshot, "READY_QUEUES_MAX", 5)
    Note.objects.bulk_create([Note(queue=f"customer{n:03}") for n in range(150)])
    count_all(Note)
    statements, ready = look()
    assert sum(ready) == 150
    Note.objects.bulk_create([Note(queue=f"new{n:03}") for n in range(150)])
    count_all(Note)
    more, ready = look()
    assert sum(ready) == 300
    assert more == statements


def test_the_oldest_job_of_a_queue_with_a_label_is_told_however_many_others_have_jobs(monkeypatch):
    monkeypatch.setattr(snapshot, "READY_QUEUES_MAX", 120)
    add(("default", Note._meta.db_table, "z-named"), {"completed": 1})
    Note.objects.bulk_create([Note(queue=f"a{n:03}") for n in range(120)])
    overwrite(Note.objects.create(queue="z-named"), created_at=DbNow(-3600))
    assert of(scrape(), "dbqueue_oldest_ready_job_age_seconds", queue="z-named") >= 3600


def test_who_works_for_any_queue_works_for_those_without_labels_of_their_own():
    Note.objects.bulk_create([Note(queue=f"a{n:03}") for n in range(120)])
    a_worker(serves=["queueapp.note:a*"])
    a_worker(serves=["queueapp.kept"])
    assert of(scrape(), "dbqueue_queue_workers", queue="(other)") == 1


def is_ready(name, labels):
    return name == "dbqueue_jobs" and ("state", "ready") in labels


def test_more_jobs_cost_no_more_statements():
    def statements():
        with CaptureQueriesContext(connection) as asked:
            scrape()
        return len(asked)

    Note.objects.bulk_create([Note() for _ in range(3)])
    few = statements()
    Note.objects.bulk_create([Note() for _ in range(300)])
    assert statements() == few <= 25


def test_totals_that_do_not_change_for_a_month_are_deleted():
    minute = recorder.this_minute("default")
    for queue, ago in (("old", UNCHANGED_KEPT + 1), ("young", UNCHANGED_KEPT - 2)):
        Total.objects.create(job_table="t", queue=queue, changed=minute - ago)
    prune("default")
    assert list(Total.objects.values_list("queue", flat=True)) == ["young"]


def test_a_database_that_is_away_is_not_up_and_the_rest_goes_on():
    away = Away(Note)
    try:
        found = scrape(Served(Note, "away"), Served(Note, "default"))
    finally:
        away.end()
    up = [found["dbqueue_up", (("database", alias),)] for alias in ("away", "default")]
    assert up == [0, 1]
    assert of(found, "dbqueue_jobs", queue="default", state="ready") == 0


def ask(user=None, **headers):
    request = RequestFactory().get("/metrics", headers=headers)
    request.user = user or AnonymousUser()
    return metrics_view(request)


@pytest.mark.any_database
def test_nobody_sees_the_metrics_by_accident():
    answer = ask()
    assert answer.status_code == 403
    assert b"METRICS_TOKEN" in answer.content
    for guess in ("", "None"):
        assert ask(Authorization=f"Bearer {guess}").status_code == 403


@pytest.mark.any_database
def test_who_has_the_token_sees_them_and_nobody_else(settings):
    settings.DBQUEUE = {"METRICS_TOKEN": "s3cret"}
    for given in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic s3cret"}):
        refused = ask(**given)
        assert refused.status_code == 401
        assert "Bearer" in refused["WWW-Authenticate"]
    answer = ask(Authorization="Bearer s3cret")
    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/plain; version=")
    assert list(text_string_to_metric_families(answer.content.decode()))


@pytest.mark.any_database
def test_who_may_see_the_queues_sees_them():
    user = User.objects.create_user("reader")
    assert ask(user).status_code == 403
    user.user_permissions.set(Permission.objects.filter(codename="view_queue"))
    try:
        assert ask(User.objects.get(pk=user.pk)).status_code == 200
    finally:
        user.delete()


@pytest.mark.any_database
def test_openmetrics_is_spoken_to_who_asks_for_it(settings):
    settings.DBQUEUE = {"METRICS_TOKEN": "s3cret"}
    add(("default", Note._meta.db_table, "default"), {"completed": 5})
    accepted = "application/openmetrics-text; version=1.0.0"
    answer = ask(Authorization="Bearer s3cret", Accept=accepted)
    assert answer["Content-Type"].startswith("application/openmetrics-text")
    found = samples(open_families(answer.content.decode()))
    assert of(found, "dbqueue_jobs_completed_total", queue="default") == 5


@pytest.mark.any_database
def test_every_metric_is_on_the_page_with_its_labels_and_nothing_else():
    rows = re.findall(r"^\| `(dbqueue_\w+)` \| (\w+) \| (.*?) \|", PAGE.read_text(), re.MULTILINE)
    told = {name: (kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    known = {}
    for one in METRICS:
        name = f"{one.name}_total" if one.kind == "counter" else one.name
        known[name] = (one.kind, one.labels)
    assert told == known


@pytest.mark.any_database
def test_the_examples_name_metrics_that_there_are():
    rules = yaml.safe_load((EXAMPLES / "prometheus-rules.yaml").read_text())
    [group] = rules["groups"]
    assert len(group["rules"]) == 3
    told = " ".join(rule["expr"] for rule in group["rules"])
    for rule in group["rules"]:
        assert isinstance(promql_parser.parse(rule["expr"]), promql_parser.BinaryExpr)
    known = {f"{one.name}_total" if one.kind == "counter" else one.name for one in METRICS}
    named = set(re.findall(r"dbqueue_\w+", told))
    assert named
    assert named <= known
    [job] = yaml.safe_load((EXAMPLES / "prometheus.yaml").read_text())["scrape_configs"]
    assert job["metrics_path"] == "/metrics"


def test_what_is_told_is_in_the_catalogue():
    add(("default", Note._meta.db_table, "default"), {"completed": 5})
    body, _ = encoded(queue_families([Served(Note, "default")]))
    told = {family.name: family for family in text_string_to_metric_families(body.decode())}
    assert told.keys() == OF_QUEUES.keys()
    for name, family in told.items():
        labels = {label for one in family.samples for label in one.labels} - {"le"}
        assert labels == set(OF_QUEUES[name].labels), name
