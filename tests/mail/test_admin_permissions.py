"""Who may see and do what with mail in the admin."""

import re
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_dbqueue.mail.models import ArchivedEmail, Email, Mailer
from tests.kit.jobs import fresh
from tests.kit.mail import finished, queued
from tests.kit.mail_admin import (
    ACTIONS,
    ARCHIVE,
    LIST,
    MAILERS,
    SUPPRESSIONS,
    act,
    in_every_state,
    page_of,
    states,
    text_of,
)

pytestmark = pytest.mark.usefixtures("db_rows", "queueing")
ALL_PAGES = (LIST, ARCHIVE, MAILERS, SUPPRESSIONS, f"{SUPPRESSIONS}add/")


def own_pages(emails: SimpleNamespace) -> list[str]:
    return [
        f"{base}{email.pk}/{part}"
        for base, email in ((LIST, emails.sent), (ARCHIVE, emails.old))
        for part in ("change/", "preview/", "message.eml")
    ]


def test_nobody_sees_anything_without_logging_in(client: Any) -> None:
    emails = in_every_state()
    for url in (*ALL_PAGES, *own_pages(emails)):
        response = client.get(url)
        assert (response.status_code, response["Location"].split("?")[0]) == (302, "/admin/login/")
    for action in ACTIONS:
        data = {"action": action, "_selected_action": [emails.failed.pk], "confirmed": "yes"}
        assert client.post(LIST, data).status_code == 302
    assert (fresh(emails.failed).mail_state, Email.objects.count()) == ("failed", 5)


def test_staff_without_permissions_sees_nothing(people: Any) -> None:
    emails, browser = in_every_state(), people()
    for url in (*ALL_PAGES, *own_pages(emails)):
        assert browser.get(url).status_code == 403, url


def test_who_may_only_look_gets_no_actions_and_no_contents(people: Any) -> None:
    emails = in_every_state()
    browser = people("view_email", "view_archivedemail", "view_mailer", "view_suppression")
    Mailer.objects.named("smtp")
    for url in ALL_PAGES[:4]:
        page = text_of(browser.get(url))
        assert "_selected" not in page.replace("dbqueue-selected", "")
    assert browser.get(f"{SUPPRESSIONS}add/").status_code == 403
    for email in (emails.sent, emails.old):
        with CaptureQueriesContext(connection) as queries:
            page = text_of(browser.get(page_of(email)))
        assert [q for q in queries if re.search(r"\bmessage[`\"]", q["sql"])] == []
        assert "anna@x.example" in page
        assert "You may not see the contents" in page
        assert "<pre>text" not in page
        assert "formaction" not in page
        for part in ("preview/", "message.eml"):
            url = page_of(email).replace("change/", part)
            assert browser.get(url).status_code == 403, url
    for action in [*ACTIONS, "release_selected", "delete_selected"]:
        data = {"action": action, "_selected_action": [emails.failed.pk], "confirmed": "yes"}
        browser.post(LIST, data | {"post": "yes"})
        browser.post(ARCHIVE, data | {"_selected_action": [emails.old.pk], "post": "yes"})
    for action in ("pause_selected", "resume_selected"):
        browser.post(MAILERS, {"action": action, "_selected_action": [Mailer.objects.get().pk]})
    assert states() == ["sent", "failed", "claimed", states()[3], "unsent"]
    assert not Email.objects.filter(is_erased=True).exists()
    assert not ArchivedEmail.objects.get().is_erased
    assert Mailer.objects.get().paused_until is None
    assert not LogEntry.objects.exists()


def done_to(failed: Email, waiting: Email) -> str:
    """Which of the verbs was at work."""
    if Email.objects.filter(resend_of=failed.pk).exists():
        return "resend"
    if fresh(failed).is_erased:
        return "forget"
    found = fresh(failed).mail_state, fresh(waiting).mail_state
    return {("unsent", "unsent"): "retry", ("failed", "failed"): "bury"}.get(found, "nothing")


@pytest.mark.parametrize("verb", ACTIONS.values())
def test_each_verb_has_a_permission_of_its_own(people: Any, verb: str) -> None:
    browser = people("view_email", f"{verb}_email")
    failed, waiting = finished(failed=True), queued()
    offered = re.findall(r'<option value="(\w+_selected)"', text_of(browser.get(LIST)))
    assert {ACTIONS[name] for name in offered if name in ACTIONS} == {verb}
    for action, its_verb in ACTIONS.items():
        data = {"action": action, "_selected_action": [failed.pk, waiting.pk], "confirmed": "yes"}
        if its_verb != verb:
            browser.post(LIST, data)
            assert done_to(failed, waiting) == "nothing", action
    [action] = [action for action, its_verb in ACTIONS.items() if its_verb == verb]
    act(browser, action, failed, waiting, confirmed="yes")
    assert done_to(failed, waiting) == verb
    assert LogEntry.objects.exists()


def test_contents_have_a_permission_of_their_own(people: Any) -> None:
    emails = in_every_state()
    browser = people("view_email", "inspect_email")
    assert "<pre>text" in text_of(browser.get(page_of(emails.sent)))
    assert browser.get(f"{LIST}{emails.sent.pk}/message.eml").status_code == 200
    assert browser.get(f"{LIST}0/message.eml").status_code == 404
    # Of what one may not see at all, one sees no contents.
    assert browser.get(f"{ARCHIVE}{emails.old.pk}/message.eml").status_code == 403
    assert browser.get(f"{ARCHIVE}{emails.old.pk}/preview/").status_code == 403
