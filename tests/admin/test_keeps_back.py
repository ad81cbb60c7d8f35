"""What the admin keeps back: secrets in texts that hold JSON, and messages in an export."""

import json
import socket

import pytest
from django.contrib import admin
from django.contrib.auth.models import User

from django_dbqueue.admin import JobAdmin
from django_dbqueue.admin.masking import MASK, masked
from django_dbqueue.exceptions import Bury
from django_dbqueue.mail.admin import EmailAdmin
from django_dbqueue.mail.deliveries import Delivery, Outcome
from django_dbqueue.tasks.admin import TaskAdmin
from django_dbqueue.tasks.models import Task
from tests.kit.jobs import overwrite
from tests.kit.mail import finished, queued
from tests.kit.mail_admin import LIST, page_of, text_of
from tests.queueapp.models import Everything, Note, Shared

NOTES, SHARED, TASKS = (
    *("/admin/queueapp/note/", "/admin/queueapp/shared/", "/admin/dbqueue_tasks/task/"),
)


@pytest.mark.parametrize("begin", ["", " ", "\n"])
def test_json_as_text_is_looked_through_wherever_it_begins(begin):
    assert json.loads(masked(begin + '{"password": "s3cret"}')) == {"password": MASK}
    assert json.loads(masked(begin + '[{"pin": 1234}]')) == [{"pin": MASK}]


@pytest.mark.usefixtures("db_rows", "queueing")
def test_an_export_of_mail_holds_no_message_even_for_who_may_read_it(browser):
    email = queued("anna", body="the words of the message")
    data = {"action": "export_selected", "_selected_action": [email.pk]}
    exported = browser.post(LIST, data).getvalue().decode()
    assert "anna@x.example" in exported
    assert "the words of the message" not in exported


@pytest.mark.usefixtures("db_rows", "queueing")
def test_the_list_of_mail_reads_no_messages_for_a_filter_whoever_asks(browser):
    queued("anna", body="the words of the message")
    assert browser.get(LIST, {"message__contains": "words"}).status_code == 400


@pytest.mark.usefixtures("db_rows", "queueing")
@pytest.mark.parametrize("may_inspect", [True, False])
def test_what_a_server_said_of_a_recipient_is_for_those_who_may_inspect(people, may_inspect):
    email = finished(failed=True)
    refusal = Delivery(Outcome.REFUSED, 550, "no such canary here")
    overwrite(email, deliveries={"anna@x.example": refusal.stored()})
    client = people("view_email", *(["inspect_email"] if may_inspect else []))
    page = text_of(client.get(page_of(email)))
    assert "refused" in page
    assert ("no such canary here" in page) == may_inspect


@pytest.fixture
def own_admin(monkeypatch):
    """The admin of a project, which masks two columns."""

    class OwnAdmin(JobAdmin):
        masked = ("text", "action")
        open_columns = JobAdmin.open_columns | {"text", "action"}

    monkeypatch.setattr(admin.site.get_model_admin(Note), "__class__", OwnAdmin)
    return OwnAdmin


@pytest.mark.usefixtures("db_rows")
def test_a_list_masks_the_column_that_it_shows(people, own_admin):
    own_admin.list_display = ("id", "text")
    own_admin.list_display_links = ("text",)
    job = Note.objects.create(text="s3cret")
    for may in (["view_note"], ["view_note", "inspect_note"]):
        page = text_of(people(*may).get(NOTES))
        assert "s3cret" not in page
        assert f'<a href="{NOTES}{job.pk}/change/">{MASK}</a>' in page


@pytest.mark.usefixtures("db_rows")
def test_a_page_masks_the_column_that_it_is_told_to_show(people, own_admin):
    own_admin.fields = ("state", "text")
    job = Note.objects.create(text="s3cret")
    page = text_of(people("view_note").get(f"{NOTES}{job.pk}/change/"))
    assert "s3cret" not in page
    assert MASK in page


@pytest.mark.usefixtures("db_rows")
def test_a_list_has_no_filter_by_what_is_masked(browser, own_admin):
    own_admin.list_filter = ("action",)
    Note.objects.create(action="s3cret")
    assert "s3cret" not in text_of(browser.get(NOTES))
    assert browser.get(NOTES, {"action": "s3cret"}).status_code == 400


@pytest.mark.usefixtures("db_rows")
def test_a_list_shows_json_without_the_secrets_in_it(browser, monkeypatch):
    monkeypatch.setattr(TaskAdmin, "list_display", ("id", "kwargs"))
    Task.objects.create(task_path="x.y", kwargs={"password": "s3cret", "size": 7})
    page = text_of(browser.get(TASKS))
    assert "s3cret" not in page
    assert f"&quot;password&quot;: &quot;{MASK}&quot;, &quot;size&quot;: 7" in page


@pytest.mark.usefixtures("db_rows")
def test_a_list_does_not_name_all_that_a_column_of_json_holds(browser, monkeypatch):
    monkeypatch.setattr(TaskAdmin, "list_filter", ("kwargs", "backend"))
    Task.objects.create(task_path="x.y", kwargs={"password": "s3cret"}, backend="ours")
    page = text_of(browser.get(TASKS))
    assert "s3cret" not in page
    assert 'href="?backend=ours"' in page


@pytest.mark.usefixtures("db_rows")
def test_a_list_masks_the_key_that_it_adds_by_itself(browser, monkeypatch):
    monkeypatch.setattr(admin.site.get_model_admin(Shared), "masked", ("concurrency_key",))
    Shared.objects.create(tenant="s3cret")
    column = 'class="field-concurrency_key">'
    assert f"{column}{MASK}<" in text_of(browser.get(SHARED))


@pytest.mark.usefixtures("db_rows", "queueing")
def test_the_page_of_mail_masks_who_sent_it(browser, monkeypatch):
    monkeypatch.setattr(EmailAdmin, "masked", ("from_email",))
    email = queued("anna")
    page = text_of(browser.get(page_of(email)))
    assert f'<div class="field-from_email"><dt>From</dt><dd>{MASK}</dd>' in page


@pytest.mark.usefixtures("db_rows", "queueing")
@pytest.mark.parametrize("name", ["recipients", "deliveries"])
def test_deliveries_tell_no_address_where_they_or_recipients_are_masked(browser, monkeypatch, name):
    monkeypatch.setattr(EmailAdmin, "masked", (name,))
    email = finished(failed=True)
    overwrite(email, deliveries={"anna@x.example": Delivery(Outcome.REFUSED, 550, "no").stored()})
    data = {"action": "export_selected", "_selected_action": [email.pk]}
    exported = browser.post(LIST, data).getvalue().decode()
    assert "refused" not in exported
    assert "anna" not in exported.split("message_id")[0]
    assert browser.get(LIST, {"deliveries__icontains": "anna"}).status_code == 400


@pytest.mark.usefixtures("db_rows")
@pytest.mark.parametrize("is_masked", [False, True])
@pytest.mark.parametrize("may_inspect", [False, True])
def test_the_page_names_the_key_to_those_who_may_see_it(
    people, monkeypatch, may_inspect, is_masked
):
    if is_masked:
        monkeypatch.setattr(admin.site.get_model_admin(Shared), "masked", ("concurrency_key",))
    *_, last = [Shared.objects.create(tenant="patient 7") for _ in range(3)]
    Shared.objects.claim(limit=2)
    browser = people("view_shared", *(["inspect_shared"] if may_inspect else []))
    name = "patient 7" if may_inspect and not is_masked else MASK
    page = text_of(browser.get(f"{SHARED}{last.pk}/change/"))
    assert f"It waits for its key {name}: 2 of 2 run." in page


@pytest.mark.usefixtures("db_rows")
@pytest.mark.parametrize("may_inspect", [False, True])
def test_the_words_of_a_bury_are_for_those_who_may_inspect(people, may_inspect):
    Note.objects.create()
    [job] = Note.objects.claim()
    job.fail(Bury("the card of anna is declined", of=ValueError("no")))
    browser = people("view_note", *(["inspect_note"] if may_inspect else []))
    page = text_of(browser.get(f"{NOTES}{job.pk}/change/"))
    assert ("It was buried a moment ago: the card of anna is declined." in page) == may_inspect
    assert ("It was buried a moment ago, as it asked for itself." in page) != may_inspect


@pytest.mark.usefixtures("db_rows")
@pytest.mark.parametrize("may_see_workers", [False, True])
def test_the_host_of_an_attempt_is_for_those_who_may_see_workers(people, may_see_workers):
    Note.objects.create()
    [job] = Note.objects.claim()
    job.fail(ValueError("no"))
    browser = people("view_note", *(["view_worker"] if may_see_workers else []))
    page = text_of(browser.get(f"{NOTES}{job.pk}/change/"))
    assert (f"on {socket.gethostname()}," in page) == may_see_workers


@pytest.mark.usefixtures("db_rows")
@pytest.mark.parametrize("how", ["regex", "startswith", "icontains", "gt"])
def test_no_filter_tells_what_json_holds_letter_by_letter(browser, how):
    Task.objects.create(task_path="x.y", kwargs={"password": "s3cret"})
    assert browser.get(TASKS, {f"kwargs__{how}": '"password": *"s'}).status_code == 400


@pytest.mark.usefixtures("db_rows")
def test_jobs_are_still_found_by_what_their_errors_say(browser):
    Note.objects.create()
    [job] = Note.objects.claim()
    job.fail(ValueError("no route to host"))
    for asked, is_found in (("no route", True), ("no money", False)):
        page = text_of(browser.get(NOTES, {"errors__icontains": asked}))
        assert (f"{NOTES}{job.pk}/change/" in page) == is_found


@pytest.mark.usefixtures("db_rows")
@pytest.mark.parametrize(
    ("lookup", "is_allowed"),
    [
        ("a_json__password", False),
        ("a_json__login__token__exact", False),
        ("a_json__login__startswith", False),
        ("a_json__size", True),
        ("a_json__size__exact", True),
        ("a_json__isnull", True),
        ("a_text__startswith", True),
    ],
)
def test_json_is_filtered_by_whole_values_of_keys_that_are_no_secrets(rf, lookup, is_allowed):
    request = rf.get("/")
    request.user = User(is_superuser=True)
    found = JobAdmin(Everything, admin.site).lookup_allowed(lookup, "s", request)
    assert found == is_allowed


@pytest.mark.parametrize("is_open", [False, True])
def test_the_key_of_another_row_is_shown_as_such_to_those_who_may_see_it(rf, is_open):
    class OwnAdmin(JobAdmin):
        fields = ("state", "an_owner_id")
        list_display = ("id", "an_owner_id", "an_owner")
        list_display_links = ("an_owner_id",)
        open_columns = JobAdmin.open_columns | ({"an_owner"} if is_open else set())

    request, own = rf.get("/"), OwnAdmin(Everything, admin.site)
    request.user = User(is_superuser=True)
    shown = own.get_list_display(request)
    assert shown[1:] == ["an_owner_id", "an_owner"]
    assert own.get_list_display_links(request, shown) == ["an_owner_id"]
    [(_, page)] = own.get_fieldsets(request)
    assert page["fields"] == ["state", *(["an_owner_id"] if is_open else [])]
