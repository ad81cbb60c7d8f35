"""What machines are told by HTTP: whether all is well, and the first page as JSON."""

import json
import re
from pathlib import Path

import pytest
from django.contrib.auth.models import AnonymousUser, Permission, User
from django.db import connection
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext

from django_dbqueue.fields import DbNow
from django_dbqueue.models import Queue
from django_dbqueue.monitor import document, web
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
    assert response["Content-Type"] == "text/plain"
    assert "no-store" in response["Cache-Control"]
    assert ask(web.healthz_view, "post").status_code == 405


def test_jobs_that_nobody_works_on_are_no_health():
    Note.objects.create()
    response = ask(web.healthz_view)
    assert (response.status_code, response.content) == (503, b"act\n")


def test_what_is_only_worth_a_look_is_health():
    a_worker(beat_at=DbNow(plus=-7))
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
    minute(2, completed=5)
    one = {"job": f"{NOTE} {job.pk}", "seconds": 3.0, "limit": 60.0}
    return a_worker(serves=[f"{NOTE}:default"], running={"7": [one]}, pool={"slots": 4})


def test_it_has_what_the_page_shows(settings):
    settings.DBQUEUE = {"METRICS_TOKEN": "s3cret"}
    worker = fill()
    found = told(ask(web.status_view, Authorization=TOKEN))
    assert found["version"] == document.VERSION
    assert found["verdict"]["level"] == "act"
    problem = found["verdict"]["problems"][0]
    assert (problem["kind"], problem["table"], problem["queue"]) == ("nobody", NOTE, "lonely")
    queues = {one["queue"]: one for one in found["queues"] if one["table"] == NOTE}
    assert queues["default"]["counts"] == {"ready": 0, "delayed": 1, "claimed": 1, "buried": 1}
    assert (queues["default"]["busy_slots"], queues["default"]["slots"]) == (1, 4)
    assert (queues["asleep"]["paused"], queues["asleep"]["pause_reason"]) == (True, "tea")
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
