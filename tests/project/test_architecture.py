"""The map of the package names every module, and nothing that is not there."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "django_dbqueue"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
MAP = PAGE.partition("## Every module")[2]


def modules_on_the_map():
    """As "worker/agent.py"."""
    found = set()
    for folder, words in re.findall(r"^\| `([\w/]+)` \| (.*) \|$", MAP, re.MULTILINE):
        inside = "" if folder == "django_dbqueue/" else folder
        place = inside
        for word in re.findall(r"`(\w+/?(?:\w+/)?)`", words):
            if word.endswith("/"):
                place = inside + word
            else:
                found.add(f"{place}{word}.py")
    return found


def test_every_module_stands_on_the_map_and_nothing_else():
    modules = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if path.name != "__init__.py" and "migrations" not in path.parts
    }
    assert modules_on_the_map() == modules


def test_every_file_that_the_page_names_is_there():
    named = set(re.findall(r"`([\w/]+/[\w*]+\.py)`", PAGE))
    assert len(named) > 30
    bases = [PACKAGE, ROOT]
    assert [one for one in named if not any(list(base.glob(one)) for base in bases)] == []


def test_functions_that_the_page_names_are_in_their_files():
    named = re.findall(r"`([\w/]+/[\w*]+\.py)`((?:,? `\w+`)+)", PAGE)
    assert len(named) > 5
    for file, words in named:
        texts = "".join(path.read_text() for path in PACKAGE.glob(file))
        for word in re.findall(r"\w+", words):
            assert f"def {word}(" in texts, f"{file}: {word}"
