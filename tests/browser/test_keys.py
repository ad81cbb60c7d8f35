"""The search box and its keys."""

import pytest

from tests.browser.pages import EMAIL, NOTE, QUEUE
from tests.browser.test_flows import scripts
from tests.kit.mail import queued
from tests.queueapp.models import Note

__all__ = ["scripts"]

pytestmark = pytest.mark.usefixtures("rows")
FOCUSED = "document.activeElement.id"


def test_an_address_is_found_from_the_overview(browse, scripts):
    email = queued("anna@x.example", subject="Your order 12")
    page = browse(QUEUE, scripts=scripts)
    page.fill("#dbqueue-search", "anna@x.example")
    with page.expect_navigation():
        page.get_by_role("search").get_by_role("button", name="Search").click()
    with page.expect_navigation():
        page.get_by_role("link", name=f"email {email.pk}: Your order 12").click()
    assert f"/email/{email.pk}/change/" in page.url


FAILURES, ACTIVITY = f"{QUEUE}failures/", f"{QUEUE}activity/"
CHARTS, WORKERS = f"{QUEUE}charts/?table=queueapp.note", "/admin/dbqueue/worker/"
WITH_BOX = (QUEUE, FAILURES, ACTIVITY, CHARTS, WORKERS)


@pytest.mark.parametrize(
    ("url", "field"), [*((one, "dbqueue-search") for one in WITH_BOX), (NOTE, "searchbar")]
)
def test_a_slash_goes_to_the_search(browse, url, field):
    Note.objects.create()
    page = browse(url)
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("/")
    assert page.evaluate(FOCUSED) == field
    page.keyboard.type("a/b?")
    assert page.input_value(f"#{field}") == "a/b?"
    page.keyboard.press("Escape")
    assert page.evaluate(FOCUSED) != field


@pytest.mark.parametrize("url", [*WITH_BOX, NOTE, EMAIL])
def test_a_question_mark_tells_the_keys(browse, url):
    page = browse(url)
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("?")
    help_of_keys = page.get_by_role("dialog", name="Keys")
    assert "search" in help_of_keys.inner_text()
    page.keyboard.press("Escape")
    assert not help_of_keys.is_visible()


@pytest.mark.parametrize("place", ["pause/?table=queueapp.note&queue=default", "job"])
def test_where_there_is_no_help_a_question_mark_stays_with_the_browser(browse, place):
    job = Note.objects.create()
    page = browse(f"{NOTE}{job.pk}/change/" if place == "job" else f"{QUEUE}{place}")
    page.evaluate("addEventListener('keydown', (event) => { window.seen = event; })")
    page.keyboard.press("?")
    assert page.evaluate("[seen.key, seen.defaultPrevented]") == ["?", False]


def test_without_scripts_there_is_no_button_for_what_needs_one(browse):
    page = browse(QUEUE, scripts=False)
    assert not page.locator("[data-dbqueue-keys]").is_visible()
    assert not page.locator("[data-dbqueue-help]").is_visible()
