"""Concurrency keys in the admin: a column, a search, a filter; for those who may inspect."""

import re

import pytest

from tests.kit.admin_lists import text_of
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


def test_other_tables_have_no_filter_of_keys(browser):
    Note.objects.create()
    assert "By concurrency key" not in text_of(browser.get("/admin/queueapp/note/"))
