"""The catalogues of translations, read without gettext's tools."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from django.utils.translation.template import templatize

LOCALE = Path(__file__).resolve().parents[2] / "django_dbqueue" / "locale"
LANGUAGES = ("de", "es", "fr", "ja", "pt")
CONTEXT = "\x04"
PART = re.compile(r'(msgctxt|msgid_plural|msgid|msgstr)(?:\[(\d)\])? (".*")')
PLACEHOLDER = re.compile(r"%\(\w+\)[sd]|%[sd%]|\{\w+\}")


@dataclass
class Entry:
    """One text: as it stands in code, and by number of its plural form what it is translated to."""

    parts: dict[str, str] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)
    is_obsolete: bool = False

    @property
    def id(self) -> str:
        context = self.parts.get("msgctxt")
        return (
            self.parts["msgid"] if context is None else f"{context}{CONTEXT}{self.parts['msgid']}"
        )

    @property
    def plural(self) -> str | None:
        return self.parts.get("msgid_plural")

    @property
    def translations(self) -> list[str]:
        return [text for name, text in self.parts.items() if name.startswith("msgstr")]


def path_of(language: str, ending: str) -> Path:
    return LOCALE / language / "LC_MESSAGES" / f"django.{ending}"


def entries(text: str) -> Iterator[Entry]:
    """Those of a .po file; the first one is its head."""
    for block in text.split("\n\n"):
        entry, name = Entry(), ""
        for line in block.splitlines():
            if line.startswith("#,"):
                entry.flags |= {one.strip() for one in line[2:].split(",")}
            elif line.startswith("#~"):
                entry.is_obsolete = True
            elif found := PART.fullmatch(line):
                name = found[1] + (f"[{found[2]}]" if found[2] else "")
                entry.parts[name] = ast.literal_eval(found[3])
            elif line.startswith('"'):
                entry.parts[name] += ast.literal_eval(line)
        if entry.parts or entry.is_obsolete:
            yield entry


def placeholders(text: str) -> list[str]:
    return sorted(PLACEHOLDER.findall(text))


# --- what stands in code ------------------------------------------------------------------------

PACKAGE = LOCALE.parent
# By name of a function, which of its arguments are the context, the text and its plural.
SINGLE = ("_", "gettext", "gettext_lazy", "gettext_noop")
ARGUMENTS = {
    **dict.fromkeys(SINGLE, (None, 0)),
    **dict.fromkeys(("ngettext", "ngettext_lazy"), (None, 0)),
    **dict.fromkeys(("pgettext", "pgettext_lazy"), (0, 1)),
    **dict.fromkeys(("npgettext", "npgettext_lazy"), (0, 1)),
}


# As the tags' calls are written.
STRING = r"u?'(?:\\.|[^'\\])*'|u?\"(?:\\.|[^\"\\])*\""
CALL = re.compile(rf"(?:_|gettext|pgettext|ngettext|npgettext)\((?:{STRING}|[\w, ])*\)")


@cache
def texts_of_code() -> set[str]:
    """Whatever the package has translated, in modules and templates."""
    found: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        found |= set(_calls(path.read_text()))
    for path in PACKAGE.rglob("templates/**/*.html"):
        # It makes calls of the tags, which is how makemessages reads them, too.
        code = templatize(path.read_text())
        for call in re.findall(CALL, code):
            found |= set(_calls(call))
    return found


def _calls(code: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(code)):
        name = getattr(getattr(node, "func", None), "id", "")
        if not isinstance(node, ast.Call) or name not in ARGUMENTS:
            continue
        context, text = (_constant(node.args, n) for n in ARGUMENTS[name])
        if text is not None:
            yield text if context is None else f"{context}{CONTEXT}{text}"


def _constant(arguments: list[ast.expr], number: int | None) -> str | None:
    if number is None or not isinstance(arguments[number], ast.Constant):
        return None
    return str(ast.literal_eval(arguments[number]))
