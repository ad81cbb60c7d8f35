"""Pausing, resuming, stopping: by clicks on the overview and the list of workers."""

import pytest

from django_dbqueue.fields import DbNow
from django_dbqueue.models import Queue, Worker
from tests.browser.pages import QUEUE, WORKER, page_of
from tests.browser.people import READER
from tests.browser.test_flows import choose, said
from tests.kit.jobs import fresh
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("rows")


@pytest.fixture(params=[True, False], ids=["with scripts", "without scripts"])
def scripts(request):
    return request.param


def test_a_queue_is_paused_with_a_reason_and_resumed(browse, scripts):
    Note.objects.create(queue="letters")
    page = browse(QUEUE, scripts=scripts)
    page.get_by_role("link", name="Pause... letters").click()
    page.fill("#id_minutes", "30")
    page.fill("#id_reason", "out of paper")
    page.get_by_role("button", name="Pause").click()
    assert "out of paper" in page.locator("tr:has-text('letters')").last.inner_text()
    assert Queue.objects.paused("queueapp_note") == {"letters"}
    page.get_by_role("button", name="Resume letters").click()
    page.get_by_role("link", name="Pause... letters").wait_for()
    assert Queue.objects.paused("queueapp_note") == set()


def test_without_a_reason_nothing_is_paused(browse, scripts):
    Note.objects.create(queue="letters")
    page = browse(f"{QUEUE}pause/?table=queueapp.note&queue=letters", scripts=scripts)
    page.get_by_role("button", name="Pause").click()
    assert "say why" in page.locator(".errorlist").first.inner_text()
    assert Queue.objects.paused("queueapp_note") == set()


def test_who_may_only_look_is_offered_no_pause(browse):
    Note.objects.create(queue="letters")
    page = browse(QUEUE, role=READER)
    assert "letters" in page.locator("#content").inner_text()
    assert not page.get_by_role("link", name="Pause").count()


def test_a_worker_is_asked_to_stop(browse, scripts):
    worker = Worker.objects.create(uuid="a" * 32, host="one", pid=1, beat_at=DbNow(plus=600))
    page = browse(WORKER, scripts=scripts)
    choose(page, "stop_selected", worker)
    assert "asked to stop" in said(page)
    assert fresh(worker).stop_requested_at


def test_a_worker_is_asked_to_drain_and_to_go_on_from_its_own_page(browse, scripts):
    worker = Worker.objects.create(uuid="a" * 32, host="one", pid=1, beat_at=DbNow(plus=600))
    page = browse(page_of(WORKER, worker), scripts=scripts)
    page.get_by_role("button", name="Ask to drain").click()
    page.locator(".messagelist", has_text="asked to drain").wait_for()
    assert fresh(worker).drain_requested_at
    page.get_by_role("button", name="Let go on").click()
    page.locator(".messagelist", has_text="asked to go on").wait_for()
    assert fresh(worker).drain_requested_at is None
