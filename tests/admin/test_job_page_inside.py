"""What the page of a job shows of what it holds, to whom; on a site of another name."""

import json

import pytest
from django.contrib import admin
from django.db import connection
from django.db.models import QuerySet
from django.urls import path

from django_dbqueue.admin import ArchivedJobAdmin, JobAdmin
from django_dbqueue.admin.masking import MASK, is_sensitive, masked
from django_dbqueue.mail.models import ArchivedEmail
from tests.kit.jobs import fresh
from tests.kit.mail import archived, finished, queue_into_memory
from tests.queueapp.models import ArchivedKept, Kept, Note, Transfer

pytestmark = pytest.mark.usefixtures("db_rows")
SECRET = "t0p-s3cret"


class NoteAdmin(JobAdmin):
    fields = ("id", "queue", "text", "dedup_key", "errors")
    open_columns = JobAdmin.open_columns | {"action"}


site = admin.AdminSite(name="other")
site.register(Transfer, JobAdmin)
site.register(Note, NoteAdmin)
site.register(Kept, JobAdmin)
site.register(ArchivedKept, ArchivedJobAdmin)
urlpatterns = [path("other/", site.urls), path("admin/", admin.site.urls)]


@pytest.fixture(autouse=True)
def _other_site(settings):
    settings.ROOT_URLCONF = __name__


def place_of(job):
    return f"/other/queueapp/{job._meta.model_name}/{job.pk}/change/"


def page_of(browser, job):
    response = browser.get(place_of(job))
    assert response.status_code == 200
    return response.content.decode()


HIDDEN = [
    {"password": SECRET},
    {"a": [{"apiKey": [SECRET, {"b": SECRET}]}]},
    {"headers": [["Authorization", f"Bearer {SECRET}"], ["X-Auth", SECRET]]},
    {"headers": [{"name": "Set-Cookie", "value": SECRET}, {"Key": "session", "Value": SECRET}]},
    {"body": json.dumps({"card": {"number": SECRET}})},
    {"list": [json.dumps([{"clientSecret": SECRET}])]},
    {"body": "[" * 5000 + f'{{"password": "{SECRET}"}}' + "]" * 5000},
    {"IBAN": SECRET, "userPIN": SECRET, "private_key": SECRET, "x-jwt": SECRET},
]


@pytest.mark.parametrize("data", HIDDEN)
def test_no_secret_is_anywhere_on_the_page(browser, data):
    page = page_of(browser, Transfer.objects.create(data=data))
    assert SECRET not in page
    # What is too deep is left out as a whole.
    assert MASK in page or "..." in page


def test_what_only_contains_the_name_of_a_secret_in_a_word_is_shown():
    for name in ("shipping", "footprint", "author", "compass", "discard", "spinner"):
        assert not is_sensitive(name)
    assert masked("[a note] {of mine}") == "[a note] {of mine}"
    assert masked('{"a": 1.10}') == '{"a": 1.10}'
    assert masked(["size", "large"]) == ["size", "large"]


def test_what_no_text_can_hold_is_shown_all_the_same(browser):
    if connection.vendor != "sqlite":
        return  # they refuse such text
    job = Transfer.objects.create(data={"half": "a pair \ud800", "large": 12345678901234567890123})
    page = page_of(browser, job)
    assert "a pair \\ud800" in page
    assert "12345678901234567890123" in page


def test_the_dedup_key_and_named_columns_are_for_those_who_may_inspect(people):
    job = Note.objects.create(text=SECRET, dedup_key=f"{SECRET} key", action="an action")
    page = page_of(people("view_note"), job)
    assert SECRET not in page
    assert "an action" in page  # that column is open to all
    assert "queueapp.inspect_note" in page
    page = page_of(people("view_note", "inspect_note"), job)
    assert page.count(SECRET) == 2


def test_a_column_that_is_masked_is_so_wherever_it_is_named(browser, monkeypatch):
    monkeypatch.setattr(NoteAdmin, "masked", ("text",))
    page = page_of(browser, Note.objects.create(text=SECRET))
    assert SECRET not in page
    assert MASK in page


def test_after_a_button_one_is_back_on_the_page(browser):
    job = Note.objects.create()
    data = {"action": "bury_selected", "_selected_action": job.pk, "dbqueue_page": job.pk}
    response = browser.post("/other/queueapp/note/", data)
    assert response["Location"] == place_of(job)
    assert fresh(job).state == "buried"
    page = page_of(browser, job)
    assert 'name="dbqueue_page"' in page
    assert "1 changed" in page
    gone = {**data, "action": "cancel_selected"}
    asked = browser.post("/other/queueapp/note/", gone)
    assert f'name="dbqueue_page" value="{job.pk}"' in asked.content.decode()
    response = browser.post("/other/queueapp/note/", gone | {"confirmed": "yes"})
    assert response["Location"] == "/other/queueapp/note/"


def test_a_page_that_is_no_key_leads_nowhere_else(browser):
    job = Note.objects.create()
    data = {"action": "bury_selected", "_selected_action": job.pk}
    for key in ("https://evil.example/", "9" * 50, "-1"):
        response = browser.post("/other/queueapp/note/", data | {"dbqueue_page": key})
        assert response["Location"] == "/other/queueapp/note/"


def test_the_page_of_a_job_that_is_in_the_archive_by_now_leads_there(people):
    job = Kept.objects.create()
    Kept.objects.cancel()
    old = ArchivedKept.objects.get()
    browser = people("view_kept", "view_archivedkept")
    assert browser.get(place_of(job))["Location"] == place_of(old)
    page = page_of(browser, old)
    assert "It was cancelled while it was ready." in page
    assert "<strong>Cancelled</strong>" in page
    assert 'name="action"' not in page
    assert people("view_kept").get(place_of(job))["Location"] == "/other/"
    for key in ("nonsense", "9" * 50):
        assert people("view_kept").get(f"/other/queueapp/kept/{key}/change/").status_code == 302


def test_a_job_and_its_copy_in_the_archive_point_at_each_other(people):
    job = Kept.objects.create()
    Kept.objects.cancel()
    QuerySet[Kept](Kept).bulk_create([Kept(pk=job.pk)])
    both = people("view_kept", "view_archivedkept")
    old = ArchivedKept.objects.get()
    assert f'See also <a href="{place_of(old)}">' in page_of(both, job)
    assert f'See also <a href="{place_of(job)}">' in page_of(both, old)
    assert "See also" not in page_of(people("view_kept"), job)


def test_archived_mail_says_how_it_ended(browser, settings):
    queue_into_memory(settings)
    email = archived(finished())
    page = browser.get(f"/admin/dbqueue_mail/archivedemail/{email.pk}/change/").content.decode()
    assert f"It is kept in the archive, {ArchivedEmail._meta.label}." in page
    assert "It was completed" in page


def test_only_what_has_not_ended_renews_itself(browser):
    job = Note.objects.create()
    assert "data-dbqueue-live" in page_of(browser, job)
    Note.objects.bury()
    assert "data-dbqueue-live" not in page_of(browser, job)
