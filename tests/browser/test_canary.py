"""Whatever strangers write is shown as it is written, on every page, and does nothing."""

import pytest

from tests.browser import pages
from tests.browser.scene import build
from tests.kit.connections import empty_tables

CANARY = "<script>pwned=1</script>\"'><img src=x onerror=pwned=2>"
# A name of a queue holds no more than 200 bytes; nothing else is cut.
SEEN = "<script>pwned=1</script>"
# Where nothing of strangers stands.
NOTHING = (
    *(
        "index",
        "search",
        "activity",
        "app",
        "jobs none",
        "suppression form",
        "schedule form",
        "pause form",
        "page fancy",
        "charts",
    ),
    *("history", "delete"),
)
IS_TEXT = "() => typeof pwned === 'undefined' && !document.querySelector('img[src=x]')"


@pytest.fixture(scope="module")
def scene(chrome):
    yield build(CANARY, CANARY, CANARY)
    empty_tables()


@pytest.mark.parametrize("name", pages.KINDS)
def test_a_page_shows_what_strangers_wrote_and_does_not_do_it(browse, scene, name):
    page = browse(pages.address(name, scene), expected=pages.expected(name))
    assert page.evaluate(IS_TEXT)
    everything = page.evaluate("document.body.textContent + document.title")
    assert SEEN in everything or name.startswith(NOTHING)
    for frame in page.frames[1:]:
        assert not frame.locator("script").count()
