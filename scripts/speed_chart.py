"""Draws docs/images/speed.svg from the figures that ``make bench-peers`` printed.

    python scripts/speed_chart.py [PAGE]

PAGE is docs/performance.md, where the table of the published run stands, or another page with
such a table. Nothing is drawn that is not in it.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PUBLISHED = ROOT / "docs" / "performance.md"
CHART = ROOT / "docs" / "images" / "speed.svg"
WIDTH, LEFT, RIGHT = 860, 250, 90
ROW, BAR, TOP, GAP = 19, 13, 46, 30
OURS = "django-dbqueue"
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .place { font-weight: 600 } .name { text-anchor: end } .ours { fill: #1a7f5a; font-weight: 600 }
  rect { fill: #9aa7b4 } rect.ours { fill: #2da06f } rect.bare { fill: #cfd6dd }
  .page { fill: #fff }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .ours { fill: #6fd6a8 }
    rect { fill: #6b7785 } rect.bare { fill: #444c56 }
    .page { fill: #0d1117 }
  }
"""


def figures(page: str) -> dict[str, list[tuple[str, int]]]:
    """By place, what each contestant did a second on its best settings, the fastest first."""
    table = re.search(r"^\| \|( MariaDB \|.*)\n\|[-:| ]+\n((?:\|.*\n)+)", page, re.MULTILINE)
    if table is None:
        raise SystemExit("there is no table of a drain")
    places = [name.strip() for name in table[1].strip("| ").split("|")]
    found: dict[str, list[tuple[str, int]]] = {place: [] for place in places}
    for row in table[2].splitlines():
        name, *cells = (cell.strip() for cell in row.strip("|").split("|"))
        if ":" in name:  # ratios come below the rates
            break
        for place, cell in zip(places, cells, strict=True):
            if rate := re.match(r"[\d,]+", cell):
                found[place].append((label(name), int(rate[0].replace(",", ""))))
    return {place: sorted(rows, key=lambda row: -row[1]) for place, rows in found.items()}


def label(name: str) -> str:
    """Without its second settings, whose rate is behind the slash."""
    plain = name.replace("*", "")
    return plain if plain.startswith(OURS) else plain.removesuffix(", best / default")


def chart(found: dict[str, list[tuple[str, int]]]) -> str:
    most = max(rate for rows in found.values() for _, rate in rows)
    parts, y = [], TOP
    for place, rows in found.items():
        parts.append(f'<text class="place" x="16" y="{y}">{place}</text>')
        y += 8
        for name, rate in rows:
            parts += bar(name, rate, most, y)
            y += ROW
        y += GAP
    title = "No-op jobs per second of one worker, best settings, completions committed"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y - 12}" role="img">',
            f"<title>{title}</title>",
            f"<style>{STYLE}</style>",
            f'<rect class="page" width="{WIDTH}" height="{y - 12}"/>',
            f'<text x="16" y="20">{title}</text>',
            *parts,
            "</svg>\n",
        ]
    )


def bar(name: str, rate: int, most: int, y: int) -> list[str]:
    width = max(1, round((WIDTH - LEFT - RIGHT) * rate / most))
    kind = "ours" if name.startswith(OURS) else "bare" if name.startswith("bare") else "peer"
    return [
        f'<text class="name {kind}" x="{LEFT - 10}" y="{y + 11}">{name}</text>',
        f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{width}" height="{BAR}" rx="2"/>',
        f'<text class="{kind}" x="{LEFT + width + 6}" y="{y + 11}">{rate:,}</text>',
    ]


if __name__ == "__main__":
    page = Path(sys.argv[1]) if len(sys.argv) > 1 else PUBLISHED
    CHART.write_text(chart(figures(page.read_text())))
    print(CHART)
