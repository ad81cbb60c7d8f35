"""What machines are told by HTTP: whether all is well, and the first page as JSON."""

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.contrib.auth.models import AnonymousUser, Permission, User
from django.db import OperationalError, connection
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext

from django_dbqueue.fields import DbNow
from django_dbqueue.models import Queue, Worker
from django_dbqueue.monitor import document, web
from django_dbqueue.monitor.verdict import Level, Verdict
from tests.kit.failures import NO_PAPER, count, failed
from tests.kit.jobs import claimed
from tests.kit.overview import NOTE, a_worker, minute
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")
DOCS = Path(__file__).resolve().parents[2] / "docs" / "observability.md"
TOKEN = "Bearer s3cret"


@pytest.fixture(autouse=True)
def nothing_from_before():
    web.HEALTH.forget()


@pytest.fixture(autouse=True)
def no_test_lasts_until_the_next_look(monkeypatch):
    monkeypatch.setattr(web, "ASKED_EVERY", 60.0)


def ask(view, method="get", user=None, **headers):
    request = getattr(RequestFactory(headers=headers), method)("/")
    request.user = user or AnonymousUser()
    return view(request)


def told(response):
    return json.loads(response.content)


def test_anybody_is_told_in_one_word_whether_all_is_well():
    a_worker()
    response = ask(web.healthz_view)
    assert (response.status_code, response.content) == (200, b"ok\n")
    assert response["Content-Type"] == "text/plain; charset=utf-8"
    assert "no-store" in response["Cache-Control"]
    assert ask(web.healthz_view, "post").status_code == 405


def test_jobs_that_nobody_works_on_are_no_health():
    Note.objects.create()
    response = ask(web.healthz_view)
    assert (response.status_code, response.content) == (503, b"act\n")


def test_what_is_only_worth_a_look_is_health(settings):
    settings.DBQUEUE = {"WORKER_TIMEOUT": 1000.0}
    a_worker(beat_at=DbNow(plus=-700))
    response = ask(web.healthz_view)
    assert (response.status_code, response.content) == (200, b"look\n")


def test_who_may_read_the_metrics_is_told_what_is_wrong(settings):
    settings.DBQUEUE = {"METRICS_TOKEN": "s3cret"}
    Note.objects.create()
    text = ask(web.healthz_view, Authorization=TOKEN).content.decode()
    assert text == f"act\nAct now: {NOTE}, queue default: no living worker serves it.\n"
    assert ask(web.healthz_view, Authorization="Bearer wrong").content == b"act\n"


def test_the_databases_are_asked_once_in_five_seconds(monkeypatch):
    a_worker()
    ask(web.healthz_view)
    Note.objects.create(queue="nobody:s")
    with CaptureQueriesContext(connection) as captured:
        assert ask(web.healthz_view).content == b"ok\n"
    assert len(captured) == 0
    monkeypatch.setattr(web, "ASKED_EVERY", 0.0)
    with CaptureQueriesContext(connection) as captured:
        ask(web.healthz_view)
    assert len(captured) > 0


class SlowLook:
    """``glance`` that waits until it may go on, and then answers, or fails."""

    def __init__(self, error=None):
        self.error, self.times = error, 0
        self.has_begun, self.may_go_on = threading.Event(), threading.Event()

    def __call__(self):
        self.times += 1
        self.has_begun.set()
        assert self.may_go_on.wait(60)
        if self.error:
            raise self.error
        return SimpleNamespace(verdict=Verdict(Level.LOOK, "Worth a look: tea."))


def asked_meanwhile(slow, *during):
    """What the one who looks is told, and those who ask while it does."""
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(web.HEALTH.verdict)
        assert slow.has_begun.wait(60)
        told = [web.HEALTH.verdict() for _ in during]
        slow.may_go_on.set()
        return first.result(60), told


def test_who_asks_while_another_looks_is_told_what_was_seen_last(monkeypatch):
    a_worker()
    assert web.HEALTH.verdict().level == "ok"
    monkeypatch.setattr(web, "ASKED_EVERY", 0.0)
    slow = SlowLook()
    monkeypatch.setattr(web, "glance", slow)
    first, [other] = asked_meanwhile(slow, "once")
    assert (first.level, other.level, slow.times) == ("look", "ok", 1)


def test_where_nothing_is_known_who_asks_meanwhile_waits_for_a_moment_only(monkeypatch):
    monkeypatch.setattr(web, "WAITS", 0.01)
    slow = SlowLook()
    monkeypatch.setattr(web, "glance", slow)
    first, others = asked_meanwhile(slow, "once", "twice")
    assert first.level == "look"
    assert {(one.level, one.sentence.partition(":")[0]) for one in others} == {("act", "Act now")}
    assert all("cannot be asked" in one.sentence for one in others)
    assert slow.times == 1


def test_what_was_seen_long_ago_is_told_to_nobody(monkeypatch):
    a_worker()
    assert web.HEALTH.verdict().level == "ok"
    for name, seconds in (("ASKED_EVERY", 0.0), ("FRESH", 0.0), ("WAITS", 0.01)):
        monkeypatch.setattr(web, name, seconds)
    slow = SlowLook()
    monkeypatch.setattr(web, "glance", slow)
    _, [other] = asked_meanwhile(slow, "once")
    assert other.level == "act"


def test_a_look_that_fails_is_no_health_and_not_tried_again_at_once(monkeypatch, settings):
    settings.DBQUEUE = {"METRICS_TOKEN": "s3cret"}
    slow = SlowLook(OperationalError("the disk is full"))
    slow.may_go_on.set()
    monkeypatch.setattr(web, "glance", slow)
    for _ in range(3):
        response = ask(web.healthz_view)
        assert (response.status_code, response.content) == (503, b"act\n")
    text = ask(web.healthz_view, Authorization=TOKEN).content.decode()
    assert text == "act\nAct now: it cannot be asked: the disk is full\n"
    assert slow.times == 1


def test_a_look_with_a_bug_is_an_error_once_and_not_tried_again_at_once(monkeypatch):
    slow = SlowLook(TypeError("a bug"))
    slow.may_go_on.set()
    monkeypatch.setattr(web, "glance", slow)
    with pytest.raises(TypeError):
        ask(web.healthz_view)
    assert ask(web.healthz_view).status_code == 503
    assert slow.times == 1


def test_the_document_is_for_those_who_may_read_the_metrics(settings):
    assert ask(web.status_view).status_code == 403
    settings.DBQUEUE = {"METRICS_TOKEN": "s3cret"}
    refused = ask(web.status_view)
    assert (refused.status_code, refused["WWW-Authenticate"]) == (401, 'Bearer realm="queues"')
    assert ask(web.status_view, Authorization=TOKEN).status_code == 200
    settings.DBQUEUE = {}
    user = User.objects.create_user("reader")
    try:
        assert ask(web.status_view, user=user).status_code == 403
        user.user_permissions.add(Permission.objects.get(codename="view_queue"))
        assert ask(web.status_view, user=User.objects.get(pk=user.pk)).status_code == 200
    finally:
        user.delete()


def fill():
    """So that no list of the document is empty."""
    job = claimed()
    failed(NO_PAPER)
    count(3, NO_PAPER)
    Note.objects.enqueue(delay=60)
    Note.objects.create(queue="lonely")
    Queue.objects.pause(Note._meta.db_table, "asleep", None, "tea")
    minute(2, completed=5, ran_5=5, waited_12=5)
    one = {"job": f"{NOTE} {job.pk}", "seconds": 3.0, "limit": 60.0}
    return a_worker(serves=[f"{NOTE}:default"], running={"7": [one]}, pool={"slots": 4})


def test_it_has_what_the_page_shows(settings):
    of_asleep = {f"{NOTE}:asleep": {"late_after": 60}}
    settings.DBQUEUE = {"METRICS_TOKEN": "s3cret", "QUEUES": of_asleep}
    worker = fill()
    found = told(ask(web.status_view, Authorization=TOKEN))
    assert found["version"] == document.VERSION
    assert found["verdict"]["level"] == "act"
    problem = found["verdict"]["problems"][0]
    assert (problem["kind"], problem["table"], problem["queue"]) == ("nobody", NOTE, "lonely")
    queues = {one["queue"]: one for one in found["queues"] if one["table"] == NOTE}
    assert queues["default"]["counts"] == {"ready": 0, "delayed": 1, "claimed": 1, "buried": 1}
    assert (queues["default"]["busy_slots"], queues["default"]["slots"]) == (1, 4)
    targets = [queues[name]["late_after_seconds"] for name in ("asleep", "default")]
    assert targets == [60, 300]
    assert (queues["asleep"]["paused"], queues["asleep"]["pause_reason"]) == (True, "tea")
    ran = [queues["default"][f"ran_p95_{name}seconds"] for name in ("above_", "")]
    waited = [queues["default"][f"waited_p95_{name}seconds"] for name in ("above_", "")]
    assert (ran, waited) == ([1, 3], [3600, None])
    assert sum(found["last_hour"]["done"]) == 5
    assert [len(minutes) for minutes in found["last_hour"].values()] == [60, 60, 60]
    [failure] = found["failures"]
    assert (failure["exception"], failure["last_hour"], failure["buried"]) == (
        "builtins.ValueError",
        3,
        1,
    )
    assert "no paper" not in json.dumps(failure), "the words are for those who may inspect"
    assert found["workers"][0]["worker"] == worker.uuid
    [runs] = found["running"]
    assert (runs["queue"], runs["limit_seconds"], runs["worker"]) == ("default", 60.0, worker.uuid)
    assert sum(found["due"][NOTE]["hour"]) == 1
    assert found["problems"] == {}


@pytest.fixture
def logged_in():
    made = []

    def with_permissions(*codenames):
        user = User.objects.create_user(f"reader{len(made)}")
        made.append(user)
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        return user

    yield with_permissions
    for user in made:
        user.delete()


def test_it_tells_a_person_of_workers_only_who_may_see_them(logged_in):
    worker = fill()
    Worker.objects.filter(pk=worker.pk).update(trouble="disk full")
    response = ask(web.status_view, user=logged_in("view_queue"))
    found = told(response)
    assert (found["workers"], found["running"], found["more_running"]) == (None, None, None)
    assert worker.uuid not in response.content.decode()
    assert "web1" not in response.content.decode()
    health = ask(web.healthz_view, user=logged_in("view_queue")).content.decode()
    assert ("web1" not in health, "disk full" in health) == (True, True)
    assert "disk full" in found["verdict"]["problems"][0]["text"], "the page tells it, too"
    found = told(ask(web.status_view, user=logged_in("view_queue", "view_worker")))
    assert (len(found["workers"]), len(found["running"]), found["more_running"]) == (1, 1, 0)
    assert found["verdict"]["problems"][0]["worker"] == worker.uuid


def test_the_docs_tell_of_all_that_is_in_it(settings):
    settings.DBQUEUE = {"METRICS_TOKEN": "s3cret"}
    fill()
    text = DOCS.read_text()
    written = set(re.findall(r"`(\w+)`", text[text.index("## Health and status") :]))
    assert names(told(ask(web.status_view, Authorization=TOKEN))) - written == set()


def names(value):
    """All keys but those that are names of tables, databases and states."""
    if isinstance(value, list):
        return set().union(*map(names, value)) if value else set()
    if not isinstance(value, dict):
        return set()
    own = {key for key in value if "." not in key and key not in {"default", *STATES}}
    return own.union(*map(names, value.values()))


STATES = ("ready", "delayed", "claimed", "buried")
