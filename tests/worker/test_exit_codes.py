"""Each exit code that docs/operations.md promises, of a real process."""

import re
from pathlib import Path

import pytest

from tests.kit.processes import running, worker
from tests.queueapp.models import Note

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.any_database]
OPERATIONS = Path(__file__).resolve().parents[2] / "docs" / "operations.md"
NOTE = "queueapp.Note"
# By code: the arguments, and what is said.
CASES = [
    (0, (NOTE, "--stop-when-empty"), "nothing is ready"),
    (0, (NOTE, "--once"), ""),
    (0, (NOTE, "--show-config"), ""),
    (1, ("queueapp.Nothing",), "is no queue table"),
    (1, (NOTE, "--max-time=0"), "max_time must be more than 0 seconds, not 0"),
    (2, (NOTE, "--no-such-option"), "unrecognized arguments: --no-such-option"),
    (2, (NOTE, "--threads=1001"), "must be a whole number of at least 1 and at most 1000"),
    (2, (NOTE, "--queue=a=3,b"), "'b' has no weight"),
    (12, (NOTE, "--max-jobs=1"), "--max-jobs: 1 were run"),
    (12, (NOTE, "--max-time=0.1"), "--max-time: 0.1 s are over"),
    (12, (NOTE, "--memory=1"), "1 allowed"),
]


@pytest.mark.parametrize(("code", "arguments", "words"), CASES)
def test_a_worker_ends_with_the_code_that_says_why(database_url, code, arguments, words):
    Note.objects.enqueue_many({} for _ in range(2))
    with worker(database_url, *arguments) as process:
        assert process.end() == code
        assert words in process.stderr


def test_a_setting_that_checks_refuse_is_1(database_url):
    with worker(database_url, NOTE, "--once", DBQUEUE_THREADS="many") as process:
        assert process.end() == 1
        assert "DBQUEUE_THREADS must be of type int, not 'many'" in process.stderr


def test_missing_migrations_are_3(tmp_path):
    url = f"sqlite:///{tmp_path / 'empty.sqlite3'}"
    with running(url, "runworker", NOTE) as process:
        assert process.end() == 3
        assert "manage.py migrate" in process.stderr


def test_the_page_promises_these_codes_and_no_others():
    promised = {int(code) for code in re.findall(r"^\| (\d+) \| ", OPERATIONS.read_text(), re.M)}
    assert promised == {code for code, *_ in CASES} | {3}
