"""Lists in the admin show what strangers wrote as text, whatever it says."""

from html.parser import HTMLParser

import pytest

from django_dbqueue.fields import DbNow
from django_dbqueue.models import Worker
from django_dbqueue.states import Status
from tests.kit.jobs import overwrite
from tests.kit.mail import queued
from tests.kit.overview import text_of
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")

EVIL = "\"'><i class=evil>"
# Lists shorten it at the first dot.
OWNER = f"<i class=evil>.{EVIL}"


class Page(HTMLParser):
    """What a browser would make of a page: its elements, their titles and their text."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.titles, self.text = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.elements.append((tag, found.get("class")))
        self.titles.append(found.get("title"))

    def handle_data(self, data):
        self.text += data


def seen(client, path):
    page = Page(text_of(client.get(path)))
    assert ("i", "evil") not in page.elements
    return page


def test_the_owner_of_a_job_is_text(browser):
    Note.objects.create()
    Note.objects.claim(owner=OWNER)
    page = seen(browser, f"/admin/queueapp/note/?state={Status.CLAIMED.value}")
    assert OWNER in page.titles
    assert f"{OWNER[:8]}.{EVIL}" in page.text


def test_so_is_that_of_a_message(browser, queueing):
    held = {"owner": OWNER, "retry_at": DbNow(plus=60)}
    overwrite(queued("anna"), status=Status.CLAIMED, **held)
    claimed = f"/admin/dbqueue_mail/email/?state={Status.CLAIMED.value}"
    assert OWNER in seen(browser, claimed).titles


def test_what_workers_say_of_themselves_is_text(browser):
    job = Note.objects.create()
    words = {name: f"{name} {EVIL}" for name in ("host", "stop_reason", "trouble")}
    jobs = [f"{job._meta.label_lower} {job.pk}", f"x.y {EVIL}"]
    running = {"1": [{"job": one, "seconds": 1.5} for one in jobs]}
    worker = Worker.objects.create(
        uuid="a" * 32, pid=1, serves=[f"serves {EVIL}"], running=running, **words
    )
    for path in ("", f"{worker.pk}/change/"):
        page = seen(browser, f"/admin/dbqueue/worker/{path}")
        for said in (*words.values(), f"serves {EVIL}", f"x.y {EVIL}"):
            assert said in page.text
