"""The catalogues of translations, read without gettext's tools."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

LOCALE = Path(__file__).resolve().parents[2] / "django_dbqueue" / "locale"
LANGUAGES = ("de", "es", "fr", "ja", "pt")
CONTEXT = "\x04"
PART = re.compile(r'(msgctxt|msgid_plural|msgid|msgstr)(?:\[(\d)\])? (".*")')
PLACEHOLDER = re.compile(r"%\(\w+\)[sd]|%%|\{\w+\}")


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
