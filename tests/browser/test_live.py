"""Pages renew themselves, but not under somebody's hands."""

import re

import pytest

from tests.browser.pages import QUEUE
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("rows")

LIVE = "select[data-dbqueue-live]"
STATE = "[data-dbqueue-live-state]"


@pytest.fixture
def live(browse):
    """A page that renews itself every second, and still knows that it was not loaded anew."""

    def open_live(url):
        page = browse(url)
        page.select_option(LIVE, "1")
        page.evaluate("document.activeElement.blur(); window.since = 'the first load'")
        return page

    yield open_live
    # The choice is remembered for the profile's next page.
    browse(QUEUE).evaluate("localStorage.clear()")


def is_the_first_load(page):
    return page.evaluate("window.since") == "the first load"


def shows(page, text):
    page.locator("#content", has_text=text).wait_for()


def waits(page, why):
    """The page says why it waits, and shows nothing new meanwhile."""
    page.locator(STATE, has_text=why).wait_for()


def test_a_new_queue_is_shown_without_a_reload(live):
    Note.objects.create(queue="letters")
    page = live(QUEUE)
    Note.objects.create(queue="parcels")
    shows(page, "parcels")
    assert is_the_first_load(page)


def test_nothing_changes_while_text_is_selected(live):
    Note.objects.create(queue="letters")
    page = live(QUEUE)
    page.evaluate("getSelection().selectAllChildren(document.querySelector('#content h1'))")
    waits(page, "selected")
    Note.objects.create(queue="parcels")
    page.evaluate("getSelection().empty()")
    shows(page, "parcels")


def test_a_hidden_page_asks_nothing(live):
    Note.objects.create(queue="letters")
    page = live(QUEUE)
    page.evaluate(
        "Object.defineProperty(document, 'hidden', {get: () => window.isHidden}); isHidden = true;"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    Note.objects.create(queue="parcels")
    page.wait_for_timeout(1500)
    assert asked == []
    page.evaluate("isHidden = false; document.dispatchEvent(new Event('visibilitychange'))")
    shows(page, "parcels")


def test_the_choice_is_remembered(live, browse):
    live(QUEUE)
    assert browse(QUEUE).locator(LIVE).input_value() == "1"


def test_the_time_of_a_renewal_is_that_of_the_server(live):
    """As all other times on the page are, wherever the browser is."""
    page = live(QUEUE)
    page.evaluate("Date.prototype.toLocaleTimeString = () => 'the browser'")
    before = page.locator(STATE).get_attribute("data-dbqueue-now")
    assert re.fullmatch(r"\d\d:\d\d:\d\d", before)
    page.locator(STATE, has_text="updated").filter(has_not_text=before).wait_for()
    assert re.fullmatch(r"updated \d\d:\d\d:\d\d", page.locator(STATE).inner_text())
