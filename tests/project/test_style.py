"""The pages are in plain English: short sentences with a subject, and none of some words."""

import pytest

from tests.kit.printed_blocks import PAGES
from tests.kit.processes import ROOT
from tests.kit.prose import problems, sentences_of

pytestmark = pytest.mark.any_database

READ = [*PAGES, ROOT / "SECURITY.md"]
# The list of all modules is no prose.
LISTS = {"architecture.md": ("more than",)}


@pytest.mark.parametrize("page", READ, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_in_plain_english(page):
    forgiven = LISTS.get(page.name, ("nothing",))
    assert [
        f"about line {sentence.line}: {problem}: {sentence.text[:90]}"
        for sentence in sentences_of(page)
        for problem in problems(sentence.text)
        if not problem.startswith(forgiven)
    ] == []


@pytest.mark.parametrize(
    "sentence",
    [
        "Whoever asks is answered.",
        "It stands beside the queue.",
        "It begins anew.",
        "A dear statement.",
        "Each option stands in a table.",
        "The states are ready, claimed ..",
        "The spans are lost; so is the log.",
        "It is not sent, nor is the other.",
        "Who asks early is told.",
        "It is so. Of a batch the first are named.",
        "Not tried are the others.",
        "It is found by all, be it by name.",
        "It waits. Else it ends.",
        "It names an option that there is not.",
        " ".join(["word"] * 41) + ".",
    ],
)
def test_a_sentence_that_is_not_is_noticed(sentence):
    assert list(problems(sentence))


@pytest.mark.parametrize(
    "sentence",
    [
        "Who may do what?",
        "A killed worker loses nothing, as in ../docs.",
        "It is out of the queue, and of no use.",
        "So nothing is lost.",
        "A job says who has it: 1, 2 ...",
        " ".join(["word"] * 40) + ".",
    ],
)
def test_a_plain_sentence_is_not_complained_of(sentence):
    assert list(problems(sentence)) == []


def test_code_links_and_tables_are_left_out_of_sentences(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# Whoever\n\nA [link](beside.md) and `anew`.\n\n```sh\nwhoever\n```\n\n"
        "| a | b c |\n|---|---|\n"
    )
    texts = [sentence.text for sentence in sentences_of(page)]
    assert texts == ["A [link] and X.", "X", "a", "b c", "---", "---"]
