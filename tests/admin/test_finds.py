"""What the admin's lists find: a job in whatever queue, and in an archive the state asked for."""

import re

import pytest

from django_dbqueue.states import Status
from tests.kit.admin_lists import NOTES, keys_in, text_of
from tests.kit.jobs import buried, done
from tests.queueapp.models import ArchivedKept, Kept, Note

pytestmark = pytest.mark.usefixtures("db_rows")

ARCHIVE = "/admin/queueapp/archivedkept/"


@pytest.mark.parametrize("queue", ["first", "last"])
def test_a_dedup_key_is_found_in_every_queue(browser, queue):
    Note.objects.create(queue="first")
    Note.objects.create(queue="last")
    job = Note.objects.create(queue=queue, dedup_key="photo:7")
    assert keys_in(text_of(browser.get(NOTES, {"q": "photo:7"}))) == [job.pk]


@pytest.mark.parametrize("status", [Status.DONE, Status.BURIED])
def test_the_list_of_an_archive_shows_the_state_that_was_asked_for(browser, status):
    done(Kept)
    buried(Kept)
    Kept.objects.all().cancel()
    [wanted] = ArchivedKept.objects.filter(status=status)
    page = text_of(browser.get(ARCHIVE, {"state": status.value}))
    assert re.findall(r"/archivedkept/(\d+)/change/", page) == [str(wanted.pk)]
