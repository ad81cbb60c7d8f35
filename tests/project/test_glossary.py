"""What the pages say of a word is what the glossary says."""

import re
from pathlib import Path

from django_dbqueue.admin import words
from django_dbqueue.states import Status

GLOSSARY = (Path(__file__).resolve().parents[2] / "docs" / "glossary.md").read_text()


def rows_of(heading, column):
    """By the word, or the words, of each row the text in a column, without its markup and links."""
    part = GLOSSARY.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    found = {}
    for row in part.splitlines():
        if row.startswith("| **"):
            plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", row)
            cells = [re.sub(r"[*`]", "", cell).strip() for cell in plain.split("|")]
            found[cells[1]] = cells[column]
    return found


def test_states_mean_what_the_glossary_says():
    assert {s.label: str(words.STATES[s]) for s in Status} == rows_of("States", 3)


def test_actions_do_what_the_glossary_says():
    documented = {}
    for names, meaning in rows_of("What people do", 2).items():
        documented |= dict.fromkeys(names.split(", "), meaning)
    assert {name: str(text) for name, text in words.ACTIONS.items()} == documented


def test_other_words_mean_what_the_glossary_says():
    shown = {str(term): str(meaning) for term, meaning in words.OTHERS.values()}
    assert shown == rows_of("Other words", 2)
