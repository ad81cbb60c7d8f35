"""What people do on the pages, by clicks and by keys, with scripts and without."""

import re

import pytest

from django_dbqueue.mail.models import Email, Mailer, Suppression
from django_dbqueue.states import Status
from tests.browser.pages import EMAIL, MAILER, NOTE, SUPPRESSION, page_of
from tests.kit.jobs import buried, claimed, fresh
from tests.kit.mail import finished, queued
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("rows")


@pytest.fixture(params=[True, False], ids=["with scripts", "without scripts"])
def scripts(request):
    return request.param


def choose(page, action, *jobs):
    """Tick the jobs and go; the answer is there."""
    for job in jobs:
        page.check(f"input[name=_selected_action][value='{job.pk}']")
    page.locator("select[name=action]").first.select_option(action)
    with page.expect_navigation():
        go(page)


def go(page):
    page.locator("button[name=index]").first.click()


def confirm(page):
    """Answer the question that the page asks."""
    page.locator("#content form:has(input[name=_selected_action])").locator(
        "[type=submit]"
    ).first.click()


def said(page):
    return page.locator(".messagelist").inner_text()


WAYS = {
    "kick_selected": (buried, Status.READY),
    "bury_selected": (Note.objects.create, Status.BURIED),
    "release_selected": (claimed, Status.READY),
}


@pytest.mark.parametrize("action", WAYS)
def test_a_verb_is_two_clicks_away(browse, scripts, action):
    make, becomes = WAYS[action]
    chosen, other = make(), make()
    before = fresh(other).status
    page = browse(NOTE, scripts=scripts)
    choose(page, action, chosen)
    if fresh(chosen).status != becomes:
        confirm(page)
    assert "1 changed" in said(page)
    assert (fresh(chosen).status, fresh(other).status) == (becomes, before)


def test_what_is_final_is_asked_once_more(browse, scripts):
    chosen, other = Note.objects.create(), Note.objects.create()
    page = browse(NOTE, scripts=scripts)
    options = page.locator("select[name=action]").first.locator("option")
    names = [one.get_attribute("value") for one in options.all()]
    [final] = [name for name in names if re.match("cancel|delete", name)]
    choose(page, final, chosen)
    assert Note.objects.count() == 2
    confirm(page)
    assert list(Note.objects.all()) == [other]
    assert said(page)


def test_who_thinks_better_of_it_changes_nothing(browse, scripts):
    email = finished(failed=True)
    page = browse(EMAIL, scripts=scripts)
    choose(page, "forget_selected", email)
    page.click("text=Go back")
    assert page.url.rstrip("?").endswith(EMAIL)
    assert not fresh(email).is_erased


def test_mail_is_sent_again_from_its_own_page(browse, scripts):
    email = finished(failed=True)
    page = browse(page_of(EMAIL, email), scripts=scripts)
    page.get_by_role("button", name="Send again").click()
    confirm(page)
    assert "1 queued" in said(page)
    assert Email.objects.get(resend_of=email.pk).mail_state == "unsent"


def test_a_mailer_is_paused_and_resumed(browse, scripts):
    mailer = Mailer.objects.named("smtp")
    page = browse(MAILER, scripts=scripts)
    choose(page, "pause_selected", mailer)
    assert "superuser of the browser" in page.locator("#result_list").inner_text()
    choose(page, "resume_selected", mailer)
    assert Mailer.objects.get().paused_until is None


def test_mail_is_found_by_its_message_id(browse, scripts):
    wanted, _ = queued("anna"), queued("bert")
    page = browse(EMAIL, scripts=scripts)
    page.fill("#searchbar", wanted.message_id)
    page.press("#searchbar", "Enter")
    page.wait_for_url("**q=*")
    shown = page.locator("#result_list").inner_text()
    assert "anna@x.example" in shown
    assert "bert@x.example" not in shown


def test_an_address_gets_no_more_mail(browse, scripts):
    page = browse(f"{SUPPRESSION}add/", scripts=scripts)
    page.fill("#id_address", "Anna@X.example")
    page.select_option("#id_reason", "by hand")
    page.click("input[name=_save]")
    assert "anna@x.example" in page.locator("#result_list").inner_text().lower()
    assert Suppression.objects.count() == 1


def tab_to(page, selector):
    """Press Tab until it has the focus, as somebody without a mouse does."""
    for _ in range(120):
        page.keyboard.press("Tab")
        if page.evaluate("(wanted) => document.activeElement.matches(wanted)", selector):
            return
    raise AssertionError(f"{selector} cannot be reached")


def test_an_action_is_reached_and_done_with_keys_alone(browse):
    job = buried()
    page = browse(f"{NOTE}?state=4")
    tab_to(page, "select[name=action]")
    page.keyboard.type("retry")
    tab_to(page, f"input[name=_selected_action][value='{job.pk}']")
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    page.wait_for_selector(".messagelist")
    assert fresh(job).status == Status.READY
