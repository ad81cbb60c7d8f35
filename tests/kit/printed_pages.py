"""The blocks of a page of the docs, as a reader works through them."""

import re
from dataclasses import dataclass
from pathlib import Path

from tests.kit.processes import ROOT

DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$|(?<!`)(http://127\.0\.0\.1:\d+/\S*[\w/])", re.M | re.S)
# What a block of Python begins with where it belongs into a file.
PLACE = re.compile(r"# ([\w/]+\.py)(, at the end)?(?: \(([^)]*)\))?\n+")


@dataclass(frozen=True)
class Step:
    """What a reader does or sees next: ``kind`` is the language of a block, or "open"."""

    kind: str
    text: str
    line: int

    def __str__(self) -> str:
        return f"line {self.line}, {self.kind}:\n{self.text}"

    @property
    def installs(self) -> bool:
        return "pip install" in self.text


def steps_of(name: str) -> list[Step]:
    """All blocks of a page, and the addresses that it has one open, in their order."""
    page = (DOCS / name).read_text()
    found = []
    for match in BLOCK.finditer(page):
        language, block, address = match.groups()
        line = page.count("\n", 0, match.start()) + 1
        found.append(Step("open", address, line) if address else Step(language, block, line))
    return found


def write_file(step: Step, folder: Path, django: str) -> None:
    """Put a block of Python where its first line says; one for other versions is left out."""
    match = PLACE.match(step.text)
    assert match, f"it does not say into which file: {step}"
    name, at_the_end, versions = match.groups()
    if versions and not re.search(rf"\b{re.escape(django)}\b", versions):
        return
    place = folder / name
    assert place.parent.is_dir(), f"there is no such folder: {step}"
    before = place.read_text() if at_the_end else ""
    place.write_text(before + step.text)
