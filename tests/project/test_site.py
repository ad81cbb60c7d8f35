"""The site: each page has its place and leads somewhere, and the words of others are found."""

import re
from importlib import import_module

import pytest
from speed_chart import chart, figures

from benchmarks.published import BEST, published
from tests.kit.printed_pages import DOCS
from tests.kit.processes import ROOT

PAGES = {
    str(page.relative_to(DOCS).with_suffix("")): page.read_text()
    for page in sorted(DOCS.rglob("*.md"))
}
README = (ROOT / "README.md").read_text()
WORDS = PAGES["words-elsewhere"]
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")
ASKED_FOR = (
    *("retry", "dead letter", "visibility timeout", "heartbeat"),
    *("graceful shutdown", "cron", "unique job", "rate limit"),
)


def toctrees(index):
    """Of a page of contents: the pages in its folder, and below, that it lists."""
    folder = index.removesuffix("index")
    found = re.findall(r"^```\{toctree\}\n(.*?)^```$", PAGES[index], re.MULTILINE | re.DOTALL)
    lines = [line for tree in found for line in tree.splitlines() if line and line[0] != ":"]
    return [folder + re.sub(r".*<(.+)>", r"\1", line) for line in lines]


def anchors(text):
    """Of the headings of a page, as GitHub and the site name them."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def links(page):
    """(file, anchor) of what a page links to within the checkout."""
    for name, anchor in LINK.findall(CODE.sub("", page.read_text())):
        yield (page.parent / name).resolve() if name else page, anchor


def leads_nowhere(file, anchor):
    return not file.exists() or bool(anchor and anchor not in anchors(file.read_text()))


def test_every_page_is_once_in_the_index():
    listed = [page for index in ("index", "decisions/index") for page in toctrees(index)]
    assert sorted(listed) == sorted(PAGES.keys() - {"index"})


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_every_link_leads_to_a_file_and_a_heading_that_exist(page):
    assert [link for link in links(page) if leads_nowhere(*link)] == []


def test_a_link_to_nowhere_is_noticed():
    assert leads_nowhere(DOCS / "none.md", "")
    assert leads_nowhere(DOCS / "mail.md", "the-first-six-minutes")
    assert not leads_nowhere(DOCS / "mail.md", "the-first-five-minutes")


@pytest.mark.parametrize("word", ASKED_FOR)
def test_a_word_of_other_systems_leads_to_a_page(word):
    rows = [row for row in WORDS.splitlines() if row.startswith("| ")]
    asked = [row for row in rows if word in row.split("|")[1].lower()]
    assert any(LINK.search(row.split("|")[3]) for row in asked if row.count("|") == 4)


def test_what_can_be_imported_is_in_the_python_interface():
    shown, module = set(), ""
    for directive, name in re.findall(r"^\.\. (\w+):: ([\w.]+)$", PAGES["api"], re.MULTILINE):
        if directive in ("module", "automodule"):
            module = name
        shown.add(name if name.startswith("django_dbqueue") else f"{module}.{name}")
    listed = re.findall(r"^\| `(django_dbqueue\.[\w.]+)` \|", PAGES["reference"], re.MULTILINE)
    assert len(listed) > 50
    members = set(re.findall(r"\w+", " ".join(re.findall(r":members: ?(.*)", PAGES["api"]))))
    signals = import_module("django_dbqueue.signals")
    assert [
        path
        for path in listed
        if path not in shown
        and path.rpartition(".")[2] not in members
        and not hasattr(signals, path.rpartition(".")[2])
    ] == []


def test_the_python_interface_shows_what_there_is():
    for name in re.findall(
        r"^\.\. auto(?:class|function|data):: (\w+\.[\w.]+)", PAGES["api"], re.M
    ):
        module, _, attribute = name.rpartition(".")
        assert hasattr(import_module(module), attribute)


def test_the_first_page_is_short():
    assert len(README.splitlines()) < 150


def test_the_chart_of_rates_shows_the_figures_of_the_page():
    drawn = (DOCS / "images/speed.svg").read_text()
    assert drawn == chart(figures(PAGES["performance"])), "run: make pictures"
    assert f">{published()['rates']['postgresql'][BEST]:,}<" in drawn


def test_the_pictures_are_small():
    sizes = {path.name: path.stat().st_size for path in (DOCS / "images").iterdir()}
    assert [name for name, size in sizes.items() if size > 1_000_000] == []
