"""Concurrency keys in the admin: a column, a search, a filter; for those who may inspect."""

import html
import re

import pytest
from django.db.models import QuerySet

from django_dbqueue.admin import search
from django_dbqueue.operate import keyset as pagination
from django_dbqueue.operate import walking
from django_dbqueue.states import Status
from tests.kit.admin_lists import confirm_all, text_of
from tests.kit.bulk import rows
from tests.queueapp.models import Note, Shared

pytestmark = pytest.mark.usefixtures("db_rows")
SHARED = "/admin/queueapp/shared/"


def keys_in(page):
    return sorted({int(key) for key in re.findall(r"/shared/(\d+)/change/", page)})


def test_the_key_is_shown_searched_and_filtered(browser):
    jobs = [Shared.objects.create(tenant=tenant) for tenant in ("one", "one", "one", "two")]
    Shared.objects.claim(limit=2)
    Shared.objects.claim()
    page = text_of(browser.get(SHARED))
    assert "waiting for its key" in page
    assert 'class="field-concurrency_key">two<' in page
    found = browser.get(SHARED, {"q": "one"})
    assert keys_in(text_of(found)) == [job.pk for job in jobs[:3]]
    assert keys_in(text_of(browser.get(SHARED, {"q": "on"}))) == []
    waits = browser.get(SHARED, {"key": "waits"})
    assert keys_in(text_of(waits)) == [jobs[2].pk]
    explained = text_of(browser.get(f"{SHARED}{jobs[2].pk}/change/"))
    assert "It waits for its key one: 2 of 2 run." in explained
    assert "Ready once its key is free" in explained


def test_without_the_permission_to_inspect_the_key_is_not_shown(people):
    Shared.objects.create(tenant="secret")
    page = text_of(people("view_shared").get(SHARED))
    assert "secret" not in page
    assert keys_in(page)


def test_a_key_that_very_many_have_is_looked_for_row_by_row(browser, monkeypatch):
    monkeypatch.setattr(search, "FOUND_ROWS_MAX", 5)
    rows(9, Status.DONE, Shared, tenant="one", concurrency_key="one")
    rows(2, Status.BURIED, Shared, tenant="one", concurrency_key="one")
    rows(2, Status.BURIED, Shared, tenant="two", concurrency_key="two")
    assert len(keys_in(text_of(browser.get(SHARED, {"q": "one"})))) == 11
    assert len(keys_in(text_of(browser.get(SHARED, {"q": "one", "state": "4"})))) == 2
    assert "Retry: 2 changed." in confirm_all(browser, "kick_selected", "?q=one", SHARED)
    assert Shared.objects.filter(tenant="two", status=Status.BURIED).count() == 2


def test_no_place_in_the_list_tells_a_key_to_those_who_may_not_see_it(people):
    for number in range(60):
        rows(1, Status.DELAYED, Shared, tenant="x", concurrency_key=f"secret{number:02}")
    client, waits = people("view_shared"), f"{SHARED}?key=waits"
    page = text_of(client.get(waits))
    assert "secret" not in page
    [following] = re.findall(r'<a href="([^"]*)" rel="next"', page)
    more = text_of(client.get(SHARED + html.unescape(following)))
    assert (len(keys_in(page)), len(keys_in(more))) == (50, 10)
    assert not set(keys_in(page)) & set(keys_in(more))
    [back] = re.findall(r'<a href="([^"]*)" rel="prev"', more)
    assert keys_in(text_of(client.get(SHARED + html.unescape(back)))) == keys_in(page)
    for guess in ('["secret30", 0, 0]', "[0]"):
        guessed = text_of(client.get(SHARED, {"key": "waits", "after": guess}))
        assert "names no place in this list" in guessed
        assert keys_in(guessed) == keys_in(page)


def test_other_tables_have_no_filter_of_keys(browser):
    Note.objects.create()
    assert "By concurrency key" not in text_of(browser.get("/admin/queueapp/note/"))


def parked(number=1):
    """Jobs that wait for their key, next to some that have it."""
    jobs = [Shared.objects.create(tenant="one") for _ in range(2 + number)]
    Shared.objects.claim(limit=2)
    Shared.objects.claim()
    waits = Shared.objects.filter(status=Status.DELAYED, retry_at=None)
    assert [job.pk for job in waits.order_by("pk")] == [job.pk for job in jobs[2:]]
    return jobs[2:]


def bury_all(browser, query):
    data = {"action": "bury_selected", "_selected_action": [], "everything": "on"}
    return text_of(browser.post(SHARED + query, data, follow=True))


def confirmed(browser, query):
    return confirm_all(browser, "bury_selected", query, SHARED)


@pytest.mark.parametrize(("query", "others"), [("", 2), ("?key=waits", 0)])
def test_what_is_done_to_all_is_done_to_what_waits_for_its_key(browser, query, others):
    waits = parked(3)
    asked = bury_all(browser, query)
    assert "<dt>waiting for its key</dt><dd>3</dd>" in asked
    assert f"<li>{waits[0]}</li>" in asked
    assert f"Bury: {3 + others} changed." in confirmed(browser, query)
    buried = Shared.objects.filter(status=Status.BURIED, pk__in=[job.pk for job in waits])
    assert buried.count() == 3


def test_what_is_done_to_all_of_a_tab_leaves_what_waits_for_its_key(browser):
    waits = parked()
    assert "waiting for its key" not in bury_all(browser, "?state=3").partition("<dl")[2]
    confirmed(browser, "?state=3")
    assert Shared.objects.get(pk=waits[0].pk).status == Status.DELAYED


@pytest.mark.each_database
def test_by_another_filter_what_waits_for_its_key_is_looked_through_in_parts(browser, monkeypatch):
    waits = parked(6)
    Shared.objects.filter(pk__gt=waits[4].pk).update(queue="far")
    monkeypatch.setattr(pagination, "WINDOW_ROWS", 2)
    monkeypatch.setattr(walking, "CHUNK_WINDOW_ROWS", 2)
    asked = bury_all(browser, "?queue=far")
    assert "<dt>waiting for its key</dt><dd>1</dd>" in asked
    assert "Bury: 1 changed." in confirmed(browser, "?queue=far")


@pytest.mark.parametrize("more", ["", "&queue=default"])
def test_the_list_of_delayed_jobs_leads_to_what_waits_for_its_key(browser, more):
    said = "waiting for their key</a></p>"
    assert said not in text_of(browser.get(f"{SHARED}?state=3{more}"))
    waits = parked(2)
    page = text_of(browser.get(f"{SHARED}?state=3{more}"))
    [link] = re.findall(rf'<a href="([^"]*)">{said}', page)
    found = keys_in(text_of(browser.get(SHARED + html.unescape(link))))
    assert found == [job.pk for job in waits]
    for other in ("?state=0", "", "?state=3&queue=other"):
        assert said not in text_of(browser.get(SHARED + other))


def test_no_tab_counts_what_its_list_leaves_out(browser):
    waits = parked(3)
    page = text_of(browser.get(f"{SHARED}?key=waits"))
    tabs = re.findall(r'<a href="([^"]*)"[^>]*>[^<]*<span class="dbqueue-count">(\d+)', page)
    assert len(tabs) == 1 + len(Status)
    for link, count in tabs:
        found = keys_in(text_of(browser.get(SHARED + html.unescape(link))))
        assert len(found) == int(count), link
    assert keys_in(page) == [job.pk for job in waits]


@pytest.mark.each_database
def test_what_waits_for_its_key_is_found_by_its_index(browser, monkeypatch):
    """However many others there are, and whatever else they are."""
    waits = parked(3)
    QuerySet[Shared](Shared).bulk_create(
        Shared(tenant="done", status=Status.DONE) for _ in range(30)
    )
    monkeypatch.setattr(pagination, "WINDOW_ROWS", 5)
    monkeypatch.setattr(walking, "WALK_SECONDS", 0)
    page = text_of(browser.get(f"{SHARED}?key=waits"))
    assert keys_in(page) == [job.pk for job in waits]
    assert "Look further" not in page
    assert "3 shareds<" in page
