"""Mail in the admin: who may see and do what, nothing by GET, everything escaped and recorded."""

import re
from collections.abc import Iterator
from datetime import timedelta
from email import message_from_bytes
from email.mime.image import MIMEImage
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.core.mail import EmailMultiAlternatives
from django.db import connection
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_dbqueue.admin import by_hand, lists
from django_dbqueue.mail.backends import EmailBackend
from django_dbqueue.mail.deliveries import Outcome
from django_dbqueue.mail.models import ArchivedEmail, Email, Mailer, Suppression
from django_dbqueue.mail.models.suppression import Reason
from tests.conftest import fresh
from tests.letters import archived, finished, letter, queued
from tests.queueapp.models import Note

LIST = "/admin/dbqueue_mail/email/"
ARCHIVE = "/admin/dbqueue_mail/archivedemail/"
MAILERS = "/admin/dbqueue_mail/mailer/"
SUPPRESSIONS = "/admin/dbqueue_mail/suppression/"
CANARY = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
ACTIONS = {
    "resend_selected": "resend",
    "kick_selected": "retry",
    "bury_selected": "bury",
    "forget_selected": "forget",
}

pytestmark = pytest.mark.usefixtures("db_rows", "queueing")


@pytest.fixture
def people(client: Any) -> Iterator[Any]:
    """Somebody who is logged in, by the codenames of what they may do."""
    made: list[User] = []

    def log_in(*codenames: str, **fields: Any) -> Any:
        user = User.objects.create_user(f"user{len(made)}", is_staff=True, **fields)
        made.append(user)
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        assert user.user_permissions.count() == len(codenames)
        client.force_login(user)
        return client

    yield log_in
    client.logout()
    for user in made:
        user.delete()


@pytest.fixture
def browser(people: Any) -> Any:
    return people(is_superuser=True)


def page_of(email: Any) -> str:
    return f"/admin/dbqueue_mail/{email._meta.model_name}/{email.pk}/change/"


def text_of(response: Any) -> str:
    assert response.status_code == 200
    return str(response.content.decode())


def act(browser: Any, action: str, *emails: Any, url: str = LIST, **more: Any) -> str:
    data = {"action": action, "_selected_action": [e.pk for e in emails], **more}
    return text_of(browser.post(url, data, follow=True))


def states() -> list[str]:
    return [email.mail_state for email in Email.objects.order_by("pk")]


def in_every_state() -> SimpleNamespace:
    sent, failed = finished(), finished(failed=True)
    claimed, late = queued(), queued()
    [_, job] = Email.objects.claim(limit=2)
    job.fail(TimeoutError("slow"), 600)
    return SimpleNamespace(
        unsent=queued(),
        claimed=claimed,
        late=late,
        sent=sent,
        failed=failed,
        old=archived(finished()),
    )


# --- the list -----------------------------------------------------------------------------------


def test_the_list_shows_states_and_errors_and_loads_no_message(browser: Any) -> None:
    EmailBackend().send_messages([letter("<b>x</b>@x.example", subject="<script>"), letter()])
    job = Email.objects.claim(limit=1)[0]
    job.fail(ConnectionResetError("peer <hung> up"), 600)
    with CaptureQueriesContext(connection) as queries:
        page = text_of(browser.get(LIST))
    for shown in ("unsent", "retry at 2", "&lt;script&gt;", "peer &lt;hung&gt; up", "2 emails"):
        assert shown in page
    assert "<script>x" not in page
    selects = [q["sql"] for q in queries if "dbqueue_mail_email" in q["sql"]]
    assert len([sql for sql in selects if "subject" in sql]) == 1
    for sql in selects:
        assert not re.search(r"\bmessage[`\"]", sql)


def test_the_list_filters_by_state_and_queue_and_finds_a_message_id(browser: Any) -> None:
    EmailBackend(queue="bulk").send_messages([letter(subject="bulky")])
    letter(subject="plain").send()
    email = Email.objects.get(subject="plain")
    for query, found in [
        ({"queue": "bulk"}, ["bulky"]),
        ({"state": "0", "queue": "default"}, ["plain"]),
        ({"state": "4"}, []),
        ({"q": email.message_id}, ["plain"]),
        ({"q": "plain"}, []),
    ]:
        page = text_of(browser.get(LIST, query))
        shown = [name for name in ("bulky", "plain") if f">{name}</a>" in page]
        assert shown == found, query


def tabs_in(page: str) -> dict[str, tuple[str, str]]:
    """By name: the number and the link."""
    found = re.findall(r'<a href="([^"]*)"[^>]*>([^<]+) <span class="dbqueue-count">([^<]*)<', page)
    return {name: (count, url.replace("&amp;", "&")) for url, name, count in found}


def test_the_tabs_speak_of_mail_and_count_each_state(browser: Any) -> None:
    in_every_state()
    queued()
    tabs = tabs_in(text_of(browser.get(LIST)))
    assert {name: count for name, (count, _) in tabs.items()} == {
        "all": "6",
        "unsent": "2",
        "claimed": "1",
        "due later": "1",
        "failed": "1",
        "sent": "1",
    }
    page = text_of(browser.get(LIST + tabs["failed"][1]))
    assert re.search('class="dbqueue-selected" aria-current="page">failed ', page)
    assert "1 email" in page
    archive = tabs_in(text_of(browser.get(ARCHIVE)))
    assert (archive["all"][0], archive["sent"][0], archive["failed"][0]) == ("1", "1", "0")


def test_a_tab_keeps_the_other_filters_and_counts_by_them(browser: Any) -> None:
    queued(queue="bulk")
    in_every_state()
    for query in ({"queue": "default", "p": "1"}, {"queue": "default", "state": "4"}):
        tabs = tabs_in(text_of(browser.get(LIST, query)))
        assert (tabs["unsent"][0], tabs["all"][0]) == ("1", "5")
        assert "queue=default" in tabs["unsent"][1]
        assert "state=0" in tabs["unsent"][1]
        assert "p=" not in tabs["unsent"][1]
        assert "state" not in tabs["all"][1]
    assert tabs_in(text_of(browser.get(LIST, {"queue": "bulk"})))["unsent"][0] == "1"


@pytest.mark.parametrize("url", [LIST, ARCHIVE])
def test_no_more_than_so_many_are_counted(
    browser: Any, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setattr(lists, "MOST_ROWS", 3)
    monkeypatch.setattr("django_dbqueue.admin.tabs.MOST_ROWS", 3)
    emails = [finished() for _ in range(5)]
    if url == ARCHIVE:
        for email in emails:
            archived(email)
    with CaptureQueriesContext(connection) as queries:
        tabs = tabs_in(text_of(browser.get(url)))
    assert (tabs["all"][0], tabs["sent"][0]) == ("3+", "3+")
    # In the archive nobody knows what lies beyond the newest ones.
    assert tabs["failed"][0] == ("0+" if url == ARCHIVE else "0")
    counting = [q["sql"] for q in queries if "COUNT(" in q["sql"] and "dbqueue_mail_" in q["sql"]]
    assert counting
    assert [sql for sql in counting if "LIMIT" not in sql] == []


def test_every_queue_table_has_tabs_in_its_own_words(browser: Any) -> None:
    Note.objects.create()
    tabs = tabs_in(text_of(browser.get("/admin/queueapp/note/")))
    assert list(tabs) == ["all", "ready", "claimed", "delayed", "buried", "done"]
    assert tabs["ready"][0] == "1"


def schedule_in(page: str) -> dict[str, str]:
    return dict(re.findall(r"<dt>([^<]+)</dt><dd>([^<]+)</dd>", page))


def test_the_retry_schedule_groups_what_waits_by_when_it_is_due(browser: Any) -> None:
    for minutes in (-5, 0.5, 5, 7, 30, 300, 1000, 3000):
        email = queued(letter(subject=f"in {minutes}"))
        due = timezone.now() + timedelta(minutes=minutes)
        QuerySet(Email).filter(pk=email.pk).update(status=3, retry_at=due, attempts=1)
    queued()
    page = text_of(browser.get(LIST, {"state": "3"}))
    assert schedule_in(page) == {
        "overdue": "1",
        "within a minute": "1",
        "within 10 minutes": "2",
        "within an hour": "1",
        "within 6 hours": "1",
        "within a day": "1",
        "later": "1",
    }
    shown = [float(minutes) for minutes in re.findall(r">in ([\d.-]+)</a>", page)]
    assert shown == sorted(shown)
    assert len(shown) == 8
    assert schedule_in(text_of(browser.get(LIST))) == {}
    assert schedule_in(text_of(browser.get(LIST, {"state": "3", "queue": "none"}))) == {}
    late = schedule_in(text_of(browser.get(LIST, {"state": "3", "queue": "default"})))
    assert late["within 10 minutes"] == "2"


@pytest.mark.parametrize("query", [{}, {"queue": "default", "state": "3"}, {"queue": "x"}])
def test_the_number_of_queries_does_not_depend_on_the_number_of_mails(
    browser: Any, query: dict[str, str]
) -> None:
    def cost(url: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            text_of(browser.get(url, query))
        return len(queries)

    def add(number: int) -> None:
        for _ in range(number):
            archived(finished())
            queued()
            Mailer.objects.named(f"m{Mailer.objects.count()}")
            Suppression.objects.suppress(f"a{Suppression.objects.count()}@x", Reason.BY_HAND)
        Email.objects.claim(limit=1)[0].fail(TimeoutError(), 5)

    add(2)
    urls = (LIST,) if "queue" in query else (LIST, ARCHIVE, MAILERS, SUPPRESSIONS)
    few = [cost(url) for url in urls]
    add(12)
    assert [cost(url) for url in urls] == few
    assert few[0] < 30


def test_the_number_of_queries_of_a_page_does_not_depend_on_its_recipients(browser: Any) -> None:
    def cost(email: Any) -> int:
        with CaptureQueriesContext(connection) as queries:
            text_of(browser.get(page_of(email)))
        return len(queries)

    cost(finished())
    few = cost(finished(letter("a0@x.example")))
    many = finished(letter(*(f"a{n}@x.example" for n in range(50))), a1=Outcome.DELIVERED)
    for _ in range(3):
        new = many.resend()
        Email.objects.filter(pk=new.pk).bury()
    assert cost(many) == few


# --- the page -----------------------------------------------------------------------------------


def test_the_page_shows_recipients_with_their_outcomes_and_codes(browser: Any) -> None:
    names = ["Anna <anna@x.example>", "bert@x.example", "carl@X.example"]
    email = finished(letter(*names), failed=True, anna=Outcome.DELIVERED, bert=Outcome.REFUSED)
    page = text_of(browser.get(page_of(email)))
    for address, outcome in {
        "anna": 'delivered</td><td>250</td><td class="dbqueue-text">said',
        "bert": "refused</td><td>250",
        "carl": "nothing known yet",
    }.items():
        assert f"<td>{address}@x.example</td><td>{outcome}" in page
    assert email.message_id.strip("<>") in page


def test_the_page_links_to_the_mails_it_belongs_to(browser: Any) -> None:
    first, other = finished(), finished()
    second = first.resend()
    old = archived(first)
    QuerySet(Email).filter(pk=second.pk).update(about=other.pk)
    page = text_of(browser.get(page_of(second)))
    assert f'Resends <a href="{page_of(old)}">archived email {old.pk}</a>' in page
    assert f'Is about <a href="{page_of(other)}">email {other.pk}</a>' in page
    page = text_of(browser.get(page_of(old)))
    assert f'Sent again as <a href="{page_of(second)}">email {second.pk}</a>' in page
    ArchivedEmail.objects.all().delete()
    assert f"email {old.pk}, which is not there any more" in text_of(browser.get(page_of(second)))


def test_the_page_of_a_message_shows_its_text_escaped_and_cannot_be_saved(browser: Any) -> None:
    email = queued(fancy_letter())
    page = text_of(browser.get(page_of(email)))
    assert "plain &lt;i&gt;text&lt;/i&gt;" in page
    assert "&lt;img src=&quot;cid:logo@x&quot;&gt;" in page
    assert "&lt;a&gt;.pdf (application/pdf, 4" in page
    assert "X-A: &lt;u&gt;" in page
    assert re.search(r'<iframe [^>]*sandbox="" [^>]*src="/admin/\S+/preview/"', page)
    assert 'name="_save"' not in page
    assert browser.post(page_of(email), {"subject": "other"}).status_code == 403
    assert browser.get(f"{LIST}add/").status_code == 403
    assert fresh(email).subject == "Hello"


def test_the_page_of_a_message_that_cannot_be_read_says_so(browser: Any) -> None:
    for broken in ('{"version": 7}', "no json", '{"version": 1}'):
        email = Email.objects.create(message=broken, subject="odd")
        assert "There is nothing to show: " in text_of(browser.get(page_of(email)))
        for part in ("preview/", "message.eml"):
            response = browser.get(f"{LIST}{email.pk}/{part}")
            assert (response.status_code, response["Content-Type"][:10]) == (404, "text/plain")
    assert "version 7 is not one" in text_of(browser.get(page_of(Email.objects.first())))


def test_the_page_of_an_erased_message_says_so(browser: Any) -> None:
    email = finished()
    act(browser, "forget_selected", email, confirmed="yes")
    assert "There is nothing to show: the message was erased" in text_of(
        browser.get(page_of(email))
    )
    for part in ("preview/", "message.eml"):
        response = browser.get(f"{LIST}{email.pk}/{part}")
        assert response.status_code == 404
        assert "was erased" in response.content.decode()


def test_the_page_and_the_list_tell_what_a_server_said_in_its_own_words(browser: Any) -> None:
    email = finished(failed=True)
    for page in (LIST, page_of(email)):
        text = text_of(browser.get(page))
        assert "550 no such user" in text
        assert "Bury: 550" not in text


# --- contents -----------------------------------------------------------------------------------

PNG = b"\x89PNG\r\n"


def fancy_letter() -> EmailMultiAlternatives:
    message = EmailMultiAlternatives(
        "Hello", "plain <i>text</i>", "s@x.example", ["a@x.example"], headers={"X-A": "<u>"}
    )
    source = (
        '<p>Grüße</p><img src="cid:logo@x"><img src="https://evil.example/x.png">'
        "<img src='cid:page@x'><img src=cid:nobody@x><p style='background:url(CID:logo%40x)'>"
    )
    message.attach_alternative(source, "text/html")
    for name, kind in (("logo@x", "png"), ("page@x", "html")):
        image = MIMEImage(PNG, kind)
        image["Content-ID"] = f"<{name}>"
        message.attach(image)
    message.attach("<a>.pdf", b"1234", "application/pdf")
    return message


def test_the_preview_is_the_html_shut_off_from_everything(browser: Any) -> None:
    email = queued(fancy_letter())
    response = browser.get(f"{LIST}{email.pk}/preview/")
    page = text_of(response)
    assert page.startswith("<p>Grüße</p>")
    assert page.count("data:image/png;base64,iVBORw0K") == 2
    # No image, nobody's image, an image elsewhere: nothing is put in for them.
    assert "cid:page@x" in page
    assert "cid:nobody@x" in page
    assert "https://evil.example/x.png" in page
    assert response["Content-Security-Policy"] == (
        "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    )
    assert response["X-Frame-Options"] == "SAMEORIGIN"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Referrer-Policy"] == "no-referrer"
    assert response["Cache-Control"].startswith("no-store")
    assert response["Content-Type"] == "text/html; charset=utf-8"
    assert browser.post(f"{LIST}{email.pk}/preview/").status_code == 405


def test_images_in_the_text_are_listed_by_their_content_id(browser: Any) -> None:
    page = text_of(browser.get(page_of(queued(fancy_letter()))))
    assert "<li>&lt;logo@x&gt; (image/png, " in page
    assert "<li>&lt;a&gt;.pdf (application/pdf, " in page


def test_html_is_found_wherever_a_message_has_it(browser: Any) -> None:
    whole = letter(body="<p>body</p>")
    whole.content_subtype = "html"
    assert text_of(browser.get(f"{LIST}{queued(whole).pk}/preview/")) == "<p>body</p>"
    response = browser.get(f"{LIST}{queued().pk}/preview/")
    assert (response.status_code, response.content) == (404, b"This message has no HTML.")
    assert "<iframe" not in text_of(browser.get(page_of(queued())))


def test_the_message_is_downloaded_as_it_is_sent(browser: Any) -> None:
    email = queued(fancy_letter())
    QuerySet(Email).filter(pk=email.pk).update(created_at="2020-02-03T04:05:06Z")
    response = browser.get(f"{LIST}{email.pk}/message.eml")
    assert response["Content-Type"] == "message/rfc822"
    assert response["Content-Disposition"] == f'attachment; filename="email-{email.pk}.eml"'
    assert response["X-Content-Type-Options"] == "nosniff"
    assert b"\n" not in response.content.replace(b"\r\n", b"")
    parsed, sent = message_from_bytes(response.content), email.to_message().message()
    assert parsed["Message-ID"] == email.message_id
    assert parsed["Date"].endswith("3 Feb 2020 04:05:06 +0000")
    shapes = [[part.get_content_type() for part in one.walk()] for one in (parsed, sent)]
    assert shapes[0] == shapes[1]
    assert parsed.get_payload()[-1].get_payload(decode=True) == b"1234"


@pytest.mark.parametrize("half", ["\ud800", "a\0b"])
def test_what_no_browser_can_be_sent_is_replaced(browser: Any, half: str) -> None:
    message = EmailMultiAlternatives("s", f"text {half}", "s@x.example", ["a@x.example"])
    message.attach_alternative(f"<p>html {half}", "text/html")
    message.attach(f"name{half}".replace("\0", ""), f"content {half}", "text/plain")
    email = queued(message)
    assert "text " in text_of(browser.get(page_of(email)))
    assert "html " in text_of(browser.get(f"{LIST}{email.pk}/preview/"))
    assert browser.get(f"{LIST}{email.pk}/message.eml").status_code in {200, 404}


# --- escaping -----------------------------------------------------------------------------------


def poisoned() -> Any:
    message = EmailMultiAlternatives(
        CANARY, CANARY, f"{CANARY} <s@x.example>", [f"{CANARY} <a@x.example>"]
    )
    message.extra_headers = {"X-Evil": CANARY, "Message-ID": CANARY}
    message.attach_alternative(CANARY, "text/html")
    message.attach_alternative(CANARY, f"text/{CANARY}")
    message.attach(CANARY, CANARY, f"text/{CANARY}")
    email = queued(message)
    QuerySet(Email).filter(pk=email.pk).update(
        using=CANARY,
        queue=CANARY[:200],
        owner=CANARY[:64],
        provider_id=CANARY,
        status=4,
        retry_at=timezone.now(),
        recipients=CANARY,
        errors=[
            dict.fromkeys(("attempt", "exception", "message", "traceback", "host"), CANARY),
            CANARY,
        ],
        deliveries={CANARY: {"outcome": "refused", "code": 550, "text": CANARY, "at": CANARY}},
    )
    return fresh(email)


def test_nothing_in_a_mail_is_markup_of_the_admins(browser: Any, settings: Any) -> None:
    settings.DBQUEUE = {**settings.DBQUEUE, "MAIL_LIMITS": {CANARY[:100]: {CANARY: 1}}}
    email = poisoned()
    old = archived(poisoned())
    Mailer.objects.create(name=CANARY[:100], pause_reason=CANARY, paused_until=timezone.now())
    Suppression.objects.create(address=f"{CANARY}@x", note=CANARY)
    row = f"{SUPPRESSIONS}{Suppression.objects.get().pk}/change/"
    pages = [
        *(browser.get(url) for url in (LIST, ARCHIVE, MAILERS, SUPPRESSIONS, row)),
        *(browser.get(page_of(one)) for one in (email, old)),
        *(browser.get(LIST, {"queue": CANARY, "state": s, "q": CANARY}) for s in ("3", CANARY)),
    ]
    select = {"_selected_action": [email.pk]}
    for action in ACTIONS:
        pages.append(browser.post(LIST, {**select, "action": action}, follow=True))
    pages.append(browser.post(LIST, {**select, "action": "kick_selected"}, follow=True))
    for page in pages:
        text = text_of(page)
        for evil in ("<script>alert", "<img src=x", "\"'><"):
            assert evil not in text, page.request["PATH_INFO"]
    for page in pages[:7]:
        assert "&lt;script&gt;alert(1)" in text_of(page)


def test_no_page_needs_inline_styles_or_scripts(browser: Any) -> None:
    """Beyond Django's own, so that a strict policy of the project's may stay."""
    emails = in_every_state()
    queued(fancy_letter())
    for url in (LIST, ARCHIVE, f"{LIST}?state=3", page_of(emails.late), page_of(emails.old)):
        text = text_of(browser.get(url))
        assert not re.search(r"<[a-z][^>]* style=|<style|<[a-z][^>]* on[a-z]+=", text), url
        assert re.findall(r"<script(?![^>]*\bsrc=)", text) == []
        assert "dbqueue/admin.css" in text


# --- actions ------------------------------------------------------------------------------------


def test_messages_are_failed_and_retried_by_hand(browser: Any) -> None:
    first, second = queued(), queued()
    Email.objects.claim(limit=1)[0].complete()
    page = act(browser, "bury_selected", first, second)
    assert "1 changed, 1 skipped: their state had moved on" in page
    assert states() == ["sent", "failed"]
    assert "1 changed, 1 skipped" in act(browser, "kick_selected", first, second)
    assert states() == ["sent", "unsent"]
    logged = LogEntry.objects.order_by("pk").values_list("object_id", "change_message")
    assert [(int(pk), text.partition(":")[0]) for pk, text in logged] == [
        (second.pk, "bury"),
        (second.pk, "kick"),
    ]
    history = text_of(browser.get(f"{LIST}{second.pk}/history/"))
    assert "bury: 1 changed" in history


def test_sending_again_is_asked_for_twice(browser: Any) -> None:
    sent, waiting = finished(), queued()
    page = act(browser, "resend_selected", sent, waiting)
    assert "Message-ID of its own" in page
    assert page.count('name="_selected_action"') == 2
    assert Email.objects.count() == 2
    page = act(browser, "resend_selected", sent, waiting, confirmed="yes")
    new = Email.objects.get(resend_of=sent.pk)
    assert f"1 queued: email {new.pk}" in page
    assert f"mail {waiting.pk} still waits to be sent" in page
    entry = LogEntry.objects.get()
    assert (entry.object_id, entry.change_message) == (str(sent.pk), f"Sent again as {new}")


def test_erasing_is_asked_for_twice(browser: Any) -> None:
    sent, waiting = finished(), queued()
    assert "erased for good" in act(browser, "forget_selected", sent, waiting)
    assert not fresh(sent).is_erased
    page = act(browser, "forget_selected", sent, waiting, confirmed="yes")
    assert "1 erased, 1 skipped" in page
    assert (fresh(sent).is_erased, fresh(sent).message) == (True, "")
    assert fresh(waiting).to_message().body == "text"
    assert [e.object_id for e in LogEntry.objects.all()] == [str(sent.pk)]


def test_mail_in_the_archive_is_sent_again_and_erased(browser: Any) -> None:
    old = archived(finished())
    act(browser, "resend_selected", old, url=ARCHIVE, confirmed="yes")
    assert Email.objects.get().resend_of == old.pk
    act(browser, "forget_selected", old, url=ARCHIVE, confirmed="yes")
    assert ArchivedEmail.objects.get().is_erased
    assert LogEntry.objects.count() == 2


def test_what_is_final_is_not_done_to_more_than_can_be_shown(
    browser: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_hand, "MOST", 2)
    emails = [finished() for _ in range(3)]
    page = act(browser, "resend_selected", *emails, select_across="1", confirmed="yes")
    assert "At most 2 at once" in page
    assert Email.objects.count() == 3
    act(browser, "resend_selected", *emails[:2], confirmed="yes")
    assert Email.objects.count() == 5
    # What can be undone is done to all, and recorded once.
    LogEntry.objects.all().delete()
    act(browser, "bury_selected", *emails, select_across="1")
    Email.objects.buried().kick()
    queued()
    act(browser, "bury_selected", *emails, select_across="1", url=f"{LIST}?queue=default")
    assert Email.objects.buried().count() == 3
    entry = LogEntry.objects.order_by("pk").last()
    assert entry is not None
    assert (entry.object_id, entry.object_repr) == (None, "more than 2 emails")
    assert "filters: queue=default" in entry.change_message


def test_a_look_at_an_address_changes_nothing(browser: Any) -> None:
    emails = in_every_state()
    before = list(QuerySet(Email).order_by("pk").values())
    for action in [*ACTIONS, "release_selected", "delete_selected"]:
        for email in (emails.sent, emails.failed, emails.late):
            query = {"action": action, "_selected_action": email.pk, "confirmed": "yes"}
            browser.get(LIST, query | {"index": "0", "post": "yes"})
            browser.get(page_of(email), query)
    Mailer.objects.named("out")
    for action in ("pause_selected", "resume_selected"):
        browser.get(MAILERS, {"action": action, "_selected_action": Mailer.objects.get().pk})
    assert list(QuerySet(Email).order_by("pk").values()) == before
    assert Mailer.objects.get().paused_until is None
    assert not LogEntry.objects.exists()


def test_a_page_offers_what_makes_sense_in_its_state(browser: Any) -> None:
    emails = in_every_state()
    for name, offered in {
        "unsent": {"bury"},
        "claimed": {"bury"},
        "late": {"kick", "bury"},
        "sent": {"resend", "forget"},
        "failed": {"resend", "kick", "forget"},
        "old": {"resend", "forget"},
    }.items():
        email = getattr(emails, name)
        page = text_of(browser.get(page_of(email)))
        buttons = re.findall(r'name="action" value="(\w+)_selected" formaction="([^"]+)"', page)
        assert {action for action, _ in buttons} == offered, name
        assert {url for _, url in buttons} == {ARCHIVE if name == "old" else LIST}
        assert f'name="_selected_action" value="{email.pk}"' in page


def test_a_token_is_asked_for(browser: Any) -> None:
    email = finished()
    browser.handler.enforce_csrf_checks = True
    data = {"action": "resend_selected", "_selected_action": [email.pk], "confirmed": "yes"}
    assert browser.post(LIST, data).status_code == 403
    assert Email.objects.count() == 1


# --- who may what -------------------------------------------------------------------------------

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
    Mailer.objects.named("out")
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
    assert {ACTIONS[name] for name in offered} == {verb}
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
    browser = people("view_email", "preview_email")
    assert "<pre>text" in text_of(browser.get(page_of(emails.sent)))
    assert browser.get(f"{LIST}{emails.sent.pk}/message.eml").status_code == 200
    assert browser.get(f"{LIST}0/message.eml").status_code == 404
    # Of what one may not see at all, one sees no contents.
    assert browser.get(f"{ARCHIVE}{emails.old.pk}/message.eml").status_code == 403
    assert browser.get(f"{ARCHIVE}{emails.old.pk}/preview/").status_code == 403


# --- mailers and suppressions -------------------------------------------------------------------


def test_mailers_are_listed_with_what_is_used_of_their_limits(browser: Any, settings: Any) -> None:
    settings.DBQUEUE = {
        **settings.DBQUEUE,
        "MAIL_LIMITS": {"out": {"minute": 14, "day": 50_000}, "bad": {"week": 1}},
    }
    Mailer.objects.ask("out", 3, None, False)
    Mailer.objects.named("bad")
    Mailer.objects.named("free")
    page = text_of(browser.get(MAILERS))
    assert "14 a minute, 50,000 a day" in page
    assert "3 of 14 (minute), 3 of 50,000 (day)" in page
    assert "a period is one of" in page
    assert re.search(r'field-limits">none<', page)


def test_a_mailer_is_paused_and_resumed_and_never_edited(people: Any) -> None:
    browser = people("view_mailer", "change_mailer")
    row = Mailer.objects.named("out")
    page = act(browser, "pause_selected", row, url=MAILERS)
    assert "by user0, in the admin" in page
    assert 290 < Mailer.objects.named("out").rest <= 300
    assert Mailer.objects.ask("out", 1, None, False).wait > 290
    act(browser, "resume_selected", row, url=MAILERS)
    assert Mailer.objects.named("out").rest == 0
    changes = [entry.change_message for entry in LogEntry.objects.order_by("pk")]
    assert changes == ["Paused for 5 minutes", "Resumed"]
    assert browser.post(f"{MAILERS}{row.pk}/change/", {"name": "other"}).status_code == 403
    assert browser.get(f"{MAILERS}add/").status_code == 403
    assert browser.post(f"{MAILERS}{row.pk}/delete/", {"post": "yes"}).status_code == 403
    assert Mailer.objects.get().name == "out"


def test_an_address_is_suppressed_as_it_is_compared(people: Any) -> None:
    browser = people("view_suppression", "add_suppression")
    data = {"address": " Anna <ANNA@x.Example> ", "reason": "by hand", "note": "asked"}
    assert browser.post(f"{SUPPRESSIONS}add/", data).status_code == 302
    assert Suppression.objects.get().address == "anna@x.example"
    for twin in ("anna@X.example", "nobody", "", "x" * 400 + "@x.example"):
        page = text_of(browser.post(f"{SUPPRESSIONS}add/", data | {"address": twin}))
        assert "errorlist" in page, twin
    assert Suppression.objects.count() == 1
    assert LogEntry.objects.count() == 1


def test_suppressions_are_found_by_the_whole_address_and_by_reason(browser: Any) -> None:
    Suppression.objects.suppress("anna@x.example", Reason.BOUNCE)
    Suppression.objects.suppress("bert@x.example", Reason.BY_HAND)
    for query, found in [
        ({"q": " ANNA@x.example"}, ["anna"]),
        ({"q": "Anna <anna@x.example>"}, ["anna"]),
        ({"q": "x.example"}, []),
        ({"reason__exact": "by hand"}, ["bert"]),
        ({}, ["anna", "bert"]),
    ]:
        page = text_of(browser.get(SUPPRESSIONS, query))
        assert [n for n in ("anna", "bert") if f">{n}@x.example</a>" in page] == found, query


def test_a_suppression_is_deleted_and_not_changed(people: Any) -> None:
    browser = people("view_suppression", "change_suppression", "delete_suppression")
    Suppression.objects.suppress("anna@x.example", Reason.BOUNCE)
    row = Suppression.objects.get()
    url = f"{SUPPRESSIONS}{row.pk}"
    assert browser.post(f"{url}/change/", {"address": "b@x.example"}).status_code == 403
    assert browser.post(f"{url}/delete/", {"post": "yes"}).status_code == 302
    assert not Suppression.objects.exists()
