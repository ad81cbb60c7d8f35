"""The site's search: the words of other systems lead first to the page that explains them."""

import subprocess
import sys

import pytest
from playwright.sync_api import sync_playwright
from search_words import PAGE, first_page, with_entries, words_by_page

from tests.kit.chromium import launch
from tests.kit.printed_pages import DOCS
from tests.kit.processes import ROOT

pytestmark = pytest.mark.any_database

WORDS = words_by_page(PAGE.read_text())
ASKED_FOR = {
    "retry": "reference#class-policy-of-a-queue-table",
    "dead letter": "lifecycle",
    "visibility timeout": "lifecycle",
    "heartbeat": "decisions/beats",
    "graceful shutdown": "operations#signals",
    "cron": "schedules",
    "unique job": "keys#one-waits-for-many",
    "rate limit": "limits",
}


@pytest.mark.parametrize(("asked", "page"), ASKED_FOR.items())
def test_a_word_that_is_asked_for_leads_to_its_page(asked, page):
    assert first_page(WORDS, asked) == page


def test_every_page_that_explains_a_word_gets_its_entries():
    assert sum(len(found) for anchors in WORDS.values() for found in anchors.values()) > 100
    for name, anchors in WORDS.items():
        page = ROOT / "README.md" if name == "about" else DOCS / f"{name}.md"
        text = with_entries(page.read_text(), anchors)
        assert text.count("```{index} ! ") == len(anchors)


def test_an_entry_is_put_below_its_heading_and_not_into_code():
    text = "# One\n\nText.\n\n```sh\n# two\n```\n\n## Two\n\nMore.\n"
    assert with_entries(text, {"two": ["b", "c d"], "": ["a"]}) == (
        "# One\n\n```{index} ! a\n```\n\nText.\n\n```sh\n# two\n```\n\n"
        "## Two\n\n```{index} ! b, ! c d\n```\n\nMore.\n"
    )
    with pytest.raises(AssertionError, match="three"):
        with_entries(text, {"three": ["d"]})


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """All pages, built: half a minute."""
    pytest.importorskip("sphinx", reason="make docs installs it")
    folder = tmp_path_factory.mktemp("site")
    build = ("-m", "sphinx", "--quiet", "--doctree-dir", folder / "trees", DOCS, folder / "html")
    subprocess.run([sys.executable, *build], cwd=ROOT, check=True)
    return folder / "html"


@pytest.mark.nightly  # it builds the site
@pytest.mark.browser
def test_the_search_of_the_site_finds_that_page_first(site):
    with sync_playwright() as playwright:
        page = launch(playwright).new_page()
        found = {}
        for asked in ASKED_FOR:
            page.goto(f"file://{site}/search.html?q={asked}")
            page.wait_for_selector("#search-results .search-summary:has-text('found')")
            link = page.wait_for_selector("#search-results ul.search li > a")
            found[asked] = link.get_attribute("href").partition(".html")[0]
    assert found == {asked: page.partition("#")[0] for asked, page in ASKED_FOR.items()}
