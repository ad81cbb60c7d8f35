"""What a release still lacks, apart from tests; nothing is published.

python scripts/release.py: exit code 1, and what it is, where something is missing.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
HEADING = re.compile(r"^## (\S+) \((.*)\)$", re.MULTILINE)


def version(root: Path = ROOT) -> str:
    found = VERSION.search((root / "django_dbqueue" / "__init__.py").read_text())
    assert found
    return found[1]


def of_the_changelog(text: str, released: str) -> Iterator[str]:
    """What its first heading should say and does not."""
    if not (heading := HEADING.search(text)):
        yield "CHANGELOG.md has no heading of the form: ## 0.1.0 (2026-12-01)"
        return
    if heading[1] != released:
        yield f"CHANGELOG.md begins with {heading[1]}, and the package is {released}"
    try:
        date.fromisoformat(heading[2])
    except ValueError:
        yield f"CHANGELOG.md calls {heading[1]} {heading[2]!r}: put the day there"


def of_the_files(dist: Path, released: str) -> Iterator[str]:
    """There are to be one sdist and one wheel, both of this version."""
    found = {path.name for path in dist.glob("*")}
    name = f"django_dbqueue-{released}"
    wanted = {f"{name}.tar.gz", f"{name}-py3-none-any.whl"}
    if found != wanted:
        yield f"dist/ holds {sorted(found)}, and not {sorted(wanted)}"


def of_the_checkout() -> Iterator[str]:
    """What is built should be what is committed."""
    command = ["git", "status", "--porcelain", "--untracked-files=no"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        yield "this is no checkout of git"
    elif done.stdout:
        yield f"not committed:\n{done.stdout.rstrip()}"


def problems() -> list[str]:
    released = version()
    changelog = (ROOT / "CHANGELOG.md").read_text()
    return [
        *of_the_changelog(changelog, released),
        *of_the_files(ROOT / "dist", released),
        *of_the_checkout(),
    ]


def main() -> int:
    if found := problems():
        print("This is no release yet:", *found, sep="\n- ")
        return 1
    print(f"{version()} can be released; what follows is in docs/releasing.md.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
