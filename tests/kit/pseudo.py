"""A language in which every translated text stands in brackets, and what of a page does not."""

import gettext
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from typing import Any

from django.apps import apps
from django.contrib.auth.models import Permission
from django.utils import translation
from django.utils.translation import trans_real

OPEN, CLOSE, ENGLISH = "⟦", "⟧", "en-us"
CONTEXT = trans_real.CONTEXT_SEPARATOR
# Of an element what people read or hear.
SPOKEN = {"title", "aria-label", "placeholder", "alt", "label", "data-label"}
# What Django's own templates have in English only, as the texts of pictures.
OF_DJANGO = {"Search", "True", "False"}
# Addresses; keys of rows and claims, or their beginning; of a table and a row; kinds of files.
KEYS = (
    r"[\w.+-]+@[\w.-]+|[0-9a-f]{8}(?:[-.][0-9a-f.-]+)?|\w+:\d+|(?:application|text|image)/[\w.+-]+"
)
BUTTONS = {"submit", "button", "reset"}
# What is in these is code, or no text; the form of an element ends with its block.
SILENT = {"script", "style", "code", "pre", "kbd", "svg defs", "iframe"}
BLOCKS = {"p", "li", "td", "th", "dd", "dt", "div", "h1", "h2", "h3", "option", "title", "summary"}


class Pseudo(gettext.NullTranslations):
    """``asked``: the texts that were translated, as they stand in code."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: set[str] = set()

    def gettext(self, message: str) -> str:
        self.asked.add(message)
        return f"{OPEN}{message.rpartition(CONTEXT)[2]}{CLOSE}"

    def ngettext(self, one: str, many: str, number: int) -> str:
        self.asked.add(one)
        return f"{OPEN}{(one if number == 1 else many).rpartition(CONTEXT)[2]}{CLOSE}"

    def language(self) -> str:
        return ENGLISH

    to_language = language


@contextmanager
def pseudo_language() -> Iterator[Pseudo]:
    """In place of English, also where another one was active meanwhile."""
    known: Any = trans_real._translations  # type: ignore[attr-defined]
    translation.activate(ENGLISH)
    before, language = known[ENGLISH], Pseudo()
    known[ENGLISH] = language
    try:
        translation.activate(ENGLISH)
        yield language
    finally:
        known[ENGLISH] = before
        translation.deactivate()


class Texts(HTMLParser):
    """Of a page what people read, without what is in brackets."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.silent = self.depth = 0
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in SILENT:
            self.silent += 1
        given = {name: value or "" for name, value in attrs}
        names = set(SPOKEN)
        if tag == "input" and given.get("type") in BUTTONS:
            names.add("value")
        if "data-dbqueue-live-state" in given:
            names |= {one for one in given if one.startswith("data-")}
        for name in names & given.keys():
            if (name, given[name]) not in {("alt", one) for one in OF_DJANGO}:
                self.found.append(outside(given[name])[0])

    def handle_endtag(self, tag: str) -> None:
        if tag in SILENT:
            self.silent = max(0, self.silent - 1)
        if tag in BLOCKS:  # a text may have been cut off before its end
            self.depth = 0

    def handle_data(self, data: str) -> None:
        if not self.silent:
            text, self.depth = outside(data, self.depth)
            self.found.append(text)


def outside(text: str, depth: int = 0) -> tuple[str, int]:
    """The letters that stand in no brackets, and in how many the text ends."""
    kept = ""
    for letter in text:
        depth += letter == OPEN
        kept += letter if depth <= 0 or letter == "\n" else " "
        depth = max(0, depth - (letter == CLOSE))
    return kept, depth


def escapes(page: str, data: Collection[str]) -> set[str]:
    """The words of a page that are neither translated nor data."""
    return _strays(Texts(page).found, data)


def stray_words(text: str, data: Collection[str]) -> set[str]:
    """The same of what a command prints, line by line."""
    return _strays(outside(text)[0].splitlines(), data)


def _strays(texts: Iterable[str], data: Collection[str]) -> set[str]:
    pattern = "|".join(re.escape(one) for one in sorted(data, key=len, reverse=True))
    known = re.compile(rf"(?<!\w)(?:{pattern}|{KEYS})(?!\w)", re.IGNORECASE)
    found = set()
    for text in texts:
        left = known.sub(" ", " ".join(text.split()))
        if re.search(r"[^\W\d_]", left):
            found.add(left.strip())
    return found


def stored_texts() -> set[str]:
    """All texts of the database, and what rows, models and columns of a project are called."""
    found: set[str] = set()
    for model in apps.get_models():
        if model is Permission:
            continue
        is_ours = model.__module__.startswith(("django_dbqueue.", "django."))
        meta = model._meta
        found |= {meta.label, meta.label_lower, meta.app_label, meta.model_name or ""}
        if not is_ours:
            names = [str(meta.verbose_name), str(meta.verbose_name_plural)]
            found |= {
                *names,
                *(
                    str(one.verbose_name)
                    for one in meta.get_fields()
                    if hasattr(one, "verbose_name")
                ),
            }
        for row in model._base_manager.all()[:500]:
            found.add(str(row))
            for field in meta.concrete_fields:
                found |= set(texts_in(getattr(row, field.attname)))
    return {one for one in found if re.search(r"[^\W\d_]", one)}


def texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield " ".join(value.split())
        yield value.partition("; filters: ")[0]  # as activity shows it
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from (str(key), *texts_in(one))
    elif isinstance(value, list):
        for one in value:
            yield from texts_in(one)
