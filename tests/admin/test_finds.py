"""What the admin's lists find: a job in whatever queue, and in an archive the state asked for."""

import re

import pytest
from django.contrib import admin

from django_dbqueue.states import Status
from tests.kit.admin_lists import NOTES, keys_in, text_of
from tests.kit.jobs import buried, done
from tests.queueapp.models import ArchivedKept, Kept, Note, Shared

pytestmark = pytest.mark.usefixtures("db_rows")

ARCHIVE = "/admin/queueapp/archivedkept/"


@pytest.mark.parametrize("queue", ["first", "last"])
def test_a_dedup_key_is_found_in_every_queue(browser, queue):
    Note.objects.create(queue="first")
    Note.objects.create(queue="last")
    job = Note.objects.create(queue=queue, dedup_key="photo:7")
    assert keys_in(text_of(browser.get(NOTES, {"q": "photo:7"}))) == [job.pk]


def test_what_needs_the_permission_to_inspect_is_found_only_with_it(people):
    job, shared = Note.objects.create(dedup_key="photo:7"), Shared.objects.create(tenant="acme")
    for label, one, term in (("note", job, "photo:7"), ("shared", shared, "acme")):
        address = f"/admin/queueapp/{label}/"
        link = f"{address}{one.pk}/change/"
        with_it = people(f"view_{label}", f"inspect_{label}")
        assert link in text_of(with_it.get(address, {"q": term}))
        assert link in text_of(people(f"view_{label}").get(address, {"q": one.pk}))
        assert link not in text_of(people(f"view_{label}").get(address, {"q": term}))


@pytest.mark.parametrize("search", ["text", "=text", "^text", "text__icontains"])
def test_a_search_of_a_projects_own_goes_by_what_may_be_seen(people, monkeypatch, search):
    job = Note.objects.create(text="secret")
    monkeypatch.setattr(admin.site._registry[Note], "search_fields", (search,), raising=False)
    asked, link = {"q": "secret"}, f"{NOTES}{job.pk}/change/"
    assert link in text_of(people("view_note", "inspect_note").get(NOTES, asked))
    assert link not in text_of(people("view_note").get(NOTES, asked))


@pytest.mark.parametrize("status", [Status.DONE, Status.BURIED])
def test_the_list_of_an_archive_shows_the_state_that_was_asked_for(browser, status):
    done(Kept)
    buried(Kept)
    Kept.objects.all().cancel()
    [wanted] = ArchivedKept.objects.filter(status=status)
    page = text_of(browser.get(ARCHIVE, {"state": status.value}))
    assert re.findall(r"/archivedkept/(\d+)/change/", page) == [str(wanted.pk)]


@pytest.mark.usefixtures("db_rows")
def test_a_list_that_renews_itself_piles_up_no_warnings(browser):
    url = "/admin/queueapp/note/"
    for _ in range(3):
        browser.get(url, {"after": "garbage"}, headers={"X-DBQueue-Live": "1"})
    assert "names no place in this list" not in browser.get(url).content.decode()
