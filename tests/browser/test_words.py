"""What the words of a page mean is a key, a click or a finger away, also without scripts."""

import pytest

from tests.browser.pages import NOTE, QUEUE, WORKER, page_of

MEANINGS = "#dbqueue-meanings"
PAGES = {
    NOTE: ("buried", "a person decides"),
    f"{QUEUE}failures/": ("failure", "its fingerprint names it"),
    QUEUE: ("claimed", "a worker has it"),
    WORKER: ("beat", "a worker's sign of life"),
    "a job": ("buried", "a person decides"),
}


@pytest.fixture(params=[True, False], ids=["with scripts", "without scripts"])
def scripts(request):
    return request.param


@pytest.mark.parametrize("name", PAGES)
def test_the_meanings_are_opened_by_a_key_and_closed_by_a_click(browse, scene, scripts, name):
    url = page_of(NOTE, scene.buried) if name == "a job" else name
    page = browse(url, scripts=scripts)
    word, meaning = PAGES[name]
    its = page.locator(f"{MEANINGS} div", has=page.locator(f"#dbqueue-word-{word}"))
    assert not its.is_visible()
    page.locator(f"{MEANINGS} summary").focus()
    page.keyboard.press("Enter")
    its.filter(has_text=meaning).wait_for()
    if scripts:
        assert page.inaccessible() == []
    page.locator(f"{MEANINGS} summary").click()
    its.wait_for(state="hidden")


def test_a_word_above_a_column_leads_to_its_meaning(browse, scene, scripts):
    page = browse(QUEUE, scripts=scripts)
    word = page.locator("a.dbqueue-term", has_text="Buried").first
    assert "a person decides" in word.get_attribute("title")
    word.focus()
    page.keyboard.press("Enter")
    page.locator("#dbqueue-word-buried").wait_for()


def test_a_state_says_what_it_means(browse, scene):
    page = browse(NOTE)
    assert "it runs" in page.get_by_role("link", name="claimed").get_attribute("title")
    page = browse(page_of(NOTE, scene.delayed))
    assert "becomes ready by itself" in page.locator(".dbqueue-state").get_attribute("title")
