"""The admin's log does not go on naming whom nobody is to know any more."""

import pytest
from django.apps import apps
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command

from django_dbqueue.admin import confirmation
from django_dbqueue.mail.models import Email, Mailer, Suppression
from tests.kit.mail import finished, letter
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows", "queueing")

ANNA = "anna@x.example"
ADMIN = "/admin/dbqueue_mail/"


@pytest.fixture
def boss():
    user = User.objects.create_superuser("boss")
    yield user
    LogEntry.objects.filter(user=user).delete()
    user.delete()


@pytest.fixture
def browser(boss, client):
    client.force_login(boss)
    yield client
    client.logout()


def logged():
    return [(one.object_repr, one.change_message) for one in LogEntry.objects.order_by("pk")]


def write(boss, model, text, message=""):
    """An entry as other code, or an older release, may have written it."""
    LogEntry.objects.create(
        user=boss,
        content_type=ContentType.objects.get_for_model(model),
        object_id="7",
        object_repr=text,
        action_flag=CHANGE,
        change_message=message,
    )


def test_a_suppression_is_logged_by_its_number(browser):
    answer = {"address": ANNA, "reason": "by hand", "note": f"asked by {ANNA}"}
    page = f"{ADMIN}suppression/"
    assert browser.post(f"{page}add/", answer).status_code == 302
    row = Suppression.objects.get()
    question = browser.get(f"{page}{row.pk}/delete/").content.decode()
    assert f"suppressed address {row.pk}: {ANNA}" in question
    assert browser.post(f"{page}{row.pk}/delete/", {"post": "yes"}).status_code == 302
    assert [text for text, _ in logged()] == [f"suppressed address {row.pk}"] * 2
    assert "anna" not in str(logged())


def test_deleting_several_suppressions_asks_with_their_addresses(browser):
    rows = [Suppression.objects.create(address=f"{name}@x.example") for name in ("anna", "berta")]
    action = {"action": "delete_selected", "_selected_action": [row.pk for row in rows]}
    question = browser.post(f"{ADMIN}suppression/", action).content.decode()
    assert all(f"{row}: {row.address}" in question for row in rows)
    browser.post(f"{ADMIN}suppression/", action | {"post": "yes"})
    assert sorted(text for text, _ in logged()) == sorted(map(str, rows))
    assert not Suppression.objects.exists()


def test_what_is_done_to_mail_is_logged_by_its_number(browser):
    mail = finished(letter(ANNA, subject=f"for {ANNA}"))
    for action in ("resend_selected", "forget_selected"):
        browser.post(
            f"{ADMIN}email/",
            {"action": action, "_selected_action": [mail.pk], "confirmed": "yes"},
        )
    assert {text for text, _ in logged()} == {f"email {mail.pk}"}
    assert "anna" not in str(logged())


def test_forgetting_takes_the_address_out_of_what_was_logged_of_mail(boss):
    write(boss, Suppression, "Anna@X.example")
    write(boss, Email, f"Hi to {ANNA}, b@x.example", f"sent to {ANNA}")
    write(boss, Mailer, "smtp", "bury; filters: recipients__contains=Anna%40x.example&state=0")
    write(boss, Suppression, "joanna@x.example")
    call_command("forget_address", ANNA)
    assert logged() == [
        ("erased", ""),
        ("Hi to erased, b@x.example", "sent to erased"),
        ("smtp", "bury; filters: recipients__contains=erased&state=0"),
        ("joanna@x.example", ""),
    ]


def test_the_filters_of_what_was_done_to_many_are_found(boss, rf, monkeypatch):
    monkeypatch.setattr(confirmation, "MOST", 1)
    request = rf.get("/", {"recipients__contains": ANNA})
    request.user = boss
    confirmation.log(request, [finished(), finished()], "kick: 2 changed")
    assert "anna%40x.example" in logged()[0][1]
    call_command("forget_address", ANNA)
    assert "anna" not in str(logged())


def test_a_dry_run_counts_what_was_logged_and_leaves_it(boss, capsys):
    write(boss, Suppression, ANNA)
    call_command("forget_address", ANNA, "--dry-run")
    assert "admin log: 0 deleted, 1 changed, 0 erased, 0 left" in capsys.readouterr().out
    assert logged() == [(ANNA, "")]


def test_what_was_logged_of_other_models_is_not_ours(boss):
    write(boss, Note, ANNA)
    write(boss, User, ANNA)
    call_command("forget_address", ANNA)
    assert logged() == [(ANNA, "")] * 2


def test_a_project_without_the_admin_has_no_log(monkeypatch, capsys):
    has = apps.is_installed
    monkeypatch.setattr(apps, "is_installed", lambda n: "admin" not in n and has(n))
    call_command("forget_address", ANNA)
    assert "admin log: 0 deleted, 0 changed, 0 erased, 0 left" in capsys.readouterr().out
