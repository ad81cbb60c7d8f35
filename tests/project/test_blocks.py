"""Each block of code on each page compiles, and names what exists; or it is another system's.

The tutorials, docs/testing.md and some other pages are executed as well, by tests of their own; so
is SQL (test_sql_blocks.py).
"""

import re

import pytest
import yaml

from tests.kit import python_blocks, shell_blocks
from tests.kit.printed_blocks import PAGES, Block, blocks_of
from tests.kit.processes import ROOT
from tests.kit.toml_blocks import problems as problems_of_toml

pytestmark = pytest.mark.any_database

NOT_LOOKED_AT = {"text", "sql", "{toctree}", "{eval-rst}"}
BLOCKS = [block for page in PAGES for block in blocks_of(page)]
OURS = [
    block
    for block in BLOCKS
    if not (block.owner or block.language in NOT_LOOKED_AT or "/tutorial" in block.page)
]


def problems_of_yaml(text):
    try:
        yaml.safe_load(text)
    except yaml.YAMLError as error:
        return [f"it is no YAML: {error}"]
    return []


CHECKS = {
    "python": python_blocks.problems,
    "sh": shell_blocks.problems,
    "console": lambda text: shell_blocks.problems(shell_blocks.commands_of_console(text)),
    "toml": problems_of_toml,
    "yaml": problems_of_yaml,
}


def test_there_are_blocks_of_each_kind():
    assert {block.language for block in OURS} == CHECKS.keys()
    assert len(OURS) > 120


@pytest.mark.parametrize("block", [block for block in BLOCKS if not block.owner], ids=str)
def test_a_block_says_in_which_language_it_is(block):
    assert block.language in CHECKS.keys() | NOT_LOOKED_AT


@pytest.mark.parametrize("block", OURS, ids=str)
def test_a_block_compiles_and_names_what_exists(block):
    assert CHECKS[block.language](block.text) == []


def test_the_code_of_others_is_marked_with_their_name():
    assert {block.owner for block in BLOCKS if block.owner} >= {"Celery", "RQ", "django-q2"}
    words = re.compile(r"^(from|import) (celery|rq|django_rq|django_q|django_tenants)\b", re.M)
    assert [str(block) for block in BLOCKS if not block.owner and words.search(block.text)] == []


def test_the_procfile_of_the_page_is_that_of_the_example():
    [printed] = [block for block in BLOCKS if block.text.startswith("release:")]
    assert (ROOT / "docs/examples/Procfile").read_text() == printed.text
    commands = "\n".join(yaml.safe_load(printed.text).values())
    assert shell_blocks.problems(commands) == []


@pytest.mark.parametrize(
    ("language", "text", "complaint"),
    [
        ("python", "x = (", "does not compile"),
        ("python", "from django_dbqueue.backoff import Random", "has no Random"),
        ("python", "from django_dbqueue.nowhere import it", "cannot be imported"),
        ("python", 'DBQUEUE = {"THREAD": 4}', "no setting THREAD"),
        ("python", 'DBQUEUE = {"QUEUES": {"a.b": {"length": 4}}}', "no option 'length'"),
        ("python", "@task(max_retries=3)\ndef f(): ...", "no option max_retries"),
        ("python", "call.using(countdown=3)", "no option countdown"),
        ("python", "Exponential(start=3)", "no argument start"),
        ("python", "Thumbnail.objects.filter(pk=1).buried().requeue()", "no manager has requeue"),
        ("sh", "python manage.py runworker (", "no shell reads it"),
        ("sh", "python manage.py runworker --fast", "--fast"),
        ("sh", "python manage.py dbqueue requeue", "requeue"),
        ("sh", "python manage.py work", "no command work"),
        ("sh", "make everything", "no make everything"),
        ("sh", 'pip install "django-dbqueue[redis]"', "no extra redis"),
        ("sh", "python -m benchmarks.nothing", "no module"),
        ("sh", "dbqueue status", "what is dbqueue?"),
        ("console", "$ python manage.py work\nit works", "no command work"),
        ("toml", "threads = ", "no TOML"),
        ("toml", "thread = 4", "no option thread"),
        ("yaml", "a: [", "no YAML"),
    ],
)
def test_a_block_that_is_broken_is_noticed(language, text, complaint):
    assert any(complaint in problem for problem in CHECKS[language](text))


def test_a_block_is_found_wherever_it_stands(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.kit.printed_blocks.ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "1. A step:\n\n   ```sh\n   make docs\n   ```\n\n"
        "<!-- of another system: Celery -->\n```python\nx.delay()\n```\n"
    )
    assert list(blocks_of(page)) == [
        Block("page.md", 3, "sh", "make docs\n"),
        Block("page.md", 8, "python", "x.delay()\n", "Celery"),
    ]
