"""Every block of code that a page shows, and whose code it is."""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.kit.processes import ROOT

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "benchmarks/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
BLOCK = re.compile(
    r"(?:^ *<!-- (?:of another system: (?P<owner>[^>]+)|(?P<drawing>a drawing)) -->\n)?"
    r"^(?P<indent> *)```(?P<language>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """``owner`` is the other system whose code it is; of ours it is empty. A drawing is printed by
    nothing."""

    page: str
    line: int
    language: str
    text: str
    owner: str = ""
    is_drawing: bool = False

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: Path) -> Iterator[Block]:
    content = page.read_text()
    for match in BLOCK.finditer(content):
        yield Block(
            page=str(page.relative_to(ROOT)),
            line=content.count("\n", 0, match.start("indent")) + 1,
            language=match["language"].strip(),
            text=textwrap.dedent(match["text"]),
            owner=(match["owner"] or "").strip(),
            is_drawing=bool(match["drawing"]),
        )
