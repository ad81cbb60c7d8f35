"""The tests of pages can fail: what goes wrong in the browser is seen."""

import pytest

from tests.browser.chrome import PHONE
from tests.browser.pages import NOTE, WORKER
from tests.kit import chromium
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.usefixtures("rows")

INLINE = """(made) => {
  const it = document.createElement(made);
  it.textContent = "body{color:red}";
  document.head.append(it);
}"""


@pytest.fixture
def problems(chrome):
    """What is known to have gone wrong so far."""
    yield chrome.problems
    chrome.end_test()


@pytest.mark.parametrize("made", ["script", "style"])
def test_what_stands_inline_is_seen(chrome, problems, made):
    chrome.open(NOTE).evaluate(INLINE, made)
    assert "Content Security Policy" in problems[0]


def test_an_attribute_of_style_is_seen(chrome, problems):
    chrome.open(NOTE).evaluate("document.body.innerHTML = '<p style=\"color: red\">x</p>'")
    assert "Content Security Policy" in problems[0]


def test_an_error_of_a_script_is_seen(chrome, problems):
    page = chrome.open(NOTE)
    page.evaluate("setTimeout(() => nothing.like.this(), 0)")
    wait_until(lambda: page.wait_for_timeout(20) or problems)
    assert "nothing is not defined" in problems[0]


def test_a_page_that_is_not_there_is_seen(chrome, problems):
    chrome.open("/admin/nothing/")
    assert "404: /admin/nothing/" in problems


def test_what_was_expected_is_no_problem(chrome):
    chrome.open("/admin/nothing/", expected=["404", "console: Failed to load"])
    assert chrome.end_test() == []


def test_what_few_can_read_or_reach_is_seen(chrome, problems):
    page = chrome.open(WORKER)
    page.evaluate("document.querySelector('#content h1').innerHTML = '<input>'")
    assert any(line.startswith("label ") for line in page.inaccessible())
    pale = "<font color=#eeeeee>some words</font>"
    page.evaluate("(it) => { document.querySelector('#content h1').innerHTML = it }", pale)
    [line] = page.inaccessible("color-contrast")
    assert "insufficient color contrast" in line


def test_what_is_too_wide_is_seen(chrome, problems):
    page = chrome.open(WORKER)
    page.look_like("light", PHONE)
    page.evaluate("document.body.style.width = '900px'")
    assert page.overflow() > 0


def test_without_a_browser_it_is_told_how_to_get_one(monkeypatch):
    monkeypatch.setattr(chromium.shutil, "which", lambda _: None)
    with pytest.raises(AssertionError, match="apt-get install chromium"):
        chromium.executable()
