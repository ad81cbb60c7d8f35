"""What the site's search finds by the words of other systems: entries of Sphinx's index.

The table "From A to Z" of docs/words-elsewhere.md says which page explains a word: the first one
that its row links to. As that page is read, an entry is put below its heading, so that a search for
the word leads there first.
"""

import re
from collections import defaultdict
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "words-elsewhere.md"
ROW = re.compile(r"^\| ([^|]+) \| [^|]+ \| \[[^]]*\]\(([\w/-]+)\.md(?:#([\w-]+))?\)", re.MULTILINE)
HEADING = re.compile(r"^#+ (.*)\n", re.MULTILINE)
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)

Words = dict[str, dict[str, list[str]]]


def words_by_page(page: str) -> Words:
    """By page, and by the anchor of its heading, or "" for the first one."""
    table = page.partition("## From A to Z")[2].partition("\n## ")[0]
    found: Words = defaultdict(lambda: defaultdict(list))
    for words, name, anchor in ROW.findall(table):
        found[name][anchor] += words.replace("`", "").split(", ")
    return {name: dict(anchors) for name, anchors in found.items()}


def anchor_of(heading: str) -> str:
    """As GitHub and the site name it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def with_entries(text: str, words: dict[str, list[str]]) -> str:
    """The text of a page with an entry of the index below each heading that explains something."""
    code = [range(*block.span()) for block in CODE.finditer(text)]
    headings = [
        one for one in HEADING.finditer(text) if not any(one.start() in block for block in code)
    ]
    left = dict(words)
    for number, heading in reversed([*enumerate(headings)]):
        explained = left.pop(anchor_of(heading[1]), [])
        explained += left.pop("", []) if number == 0 else []
        if explained:
            entry = ", ".join(f"! {word}" for word in explained)
            text = f"{text[: heading.end()]}\n```{{index}} {entry}\n```\n{text[heading.end() :]}"
    assert not left, f"there are no such headings: {', '.join(left)}"
    return text


def first_page(words: Words, asked: str) -> str:
    """Where the site's search leads first: to the shortest entry that holds the words that are
    asked for, if these are half of it or more. '' if to none."""
    entries = [
        (len(word), f"{name}#{anchor}".rstrip("#"))
        for name, anchors in words.items()
        for anchor, found in anchors.items()
        for word in found
        if asked in word.lower() and len(asked) >= len(word) / 2
    ]
    return min(entries, default=(0, ""))[1]
