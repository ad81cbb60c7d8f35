"""What ``make growth`` makes of what it sees."""

import math
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.adapters import URL_VARIABLE
from benchmarks.contestants import NoResult
from benchmarks.growth import MODULE, ROWS_VARIABLE, keeping_up
from benchmarks.growth.__main__ import parse
from benchmarks.growth.keeping_up import Minute, held, verdict
from benchmarks.growth.rows import last_key
from benchmarks.growth.table import Line, lines, page
from benchmarks.marks import Marks

pytestmark = pytest.mark.any_database
ROWS = 250


def minute(waiting=0, over_age=0, is_held=False, claim=2.0):
    return Minute(30_000, waiting, over_age, is_held, {"claim": (1.0, claim)})


def calm():
    return [minute(), minute(is_held=True)]


@pytest.fixture
def marks(tmp_path):
    """Of five jobs that were sent, and ran."""
    started, sent = (Marks.create(tmp_path / name, 5) for name in ("started", "sent"))
    for number in range(4):
        started.add(number)
        sent.add(number)
    return started, sent


def test_a_ratio_says_how_many_times_as_dear_it_is_in_the_full_table():
    assert Line("drain, jobs/s", 30_000, 20_000).ratio == 1.5
    assert Line("archive, ms", 10, 15).ratio == 1.5


def test_a_figure_is_the_median_of_its_rounds():
    empty = [{"prune, ms": value} for value in (9.0, 1.0, 2.0)]
    full = [{"prune, ms": value} for value in (3.0, 99.0, 1.0)]
    assert lines(empty, full) == [Line("prune, ms", 2.0, 3.0)]


def test_the_table_is_markdown_and_says_what_is_too_dear():
    found = [Line("drain, jobs/s", 30_000, 29_000), Line("prune, ms", 4, 8)]
    head, rule, drain, prune = page("sqlite", 10_000_000, found).splitlines()
    assert head.startswith("| sqlite | empty | 10,000,000 rows |")
    assert {line.count("|") for line in (head, rule, drain, prune)} == {6}
    assert "over" not in drain
    assert "2.00 | over 1.2" in prune


def test_it_kept_up_where_little_waits(capsys, marks):
    assert verdict("sqlite", [*calm(), minute(waiting=29_000)], marks, rate=500)
    assert "kept up: at the worst 29,000 rows behind, 58.0 s" in capsys.readouterr().out


@pytest.mark.parametrize("behind", [{"waiting": 31_000}, {"over_age": 31_000}])
def test_it_did_not_keep_up_where_much_waits_or_is_over_age(capsys, marks, behind):
    assert not verdict("sqlite", [*calm(), minute(**behind)], marks, rate=500)
    assert "DID NOT KEEP UP: at the worst 31,000 rows" in capsys.readouterr().out


def test_a_job_that_ran_twice_is_no_result(marks):
    marks[0].add(3)
    with pytest.raises(NoResult, match="4 jobs were enqueued, 4 ran, 3 once"):
        verdict("sqlite", calm(), marks, rate=500)


def test_a_job_that_was_lost_is_no_result(marks):
    marks[1].add(4)
    with pytest.raises(NoResult, match="5 jobs were enqueued, 4 ran, 4 once"):
        verdict("sqlite", calm(), marks, rate=500)


def test_the_snapshot_is_held_in_the_middle_half(monkeypatch):
    happened = []

    class Inside:
        def __init__(self, place, verb):
            self.verb = verb

        def __enter__(self):
            happened.append(self.verb)

        def __exit__(self, *_):
            happened.append("end")

    monkeypatch.setattr(keeping_up, "inside", Inside)
    note = happened.append
    for is_held in held(None, 8, 0.0):
        note(is_held)
    assert happened == [False, False, "hold", True, True, True, True, "end", False, False]


def test_few_calls_have_no_percentiles():
    assert all(map(math.isnan, keeping_up.percentiles([1.0])))
    assert keeping_up.percentiles([1.0, 2.0, 3.0])[0] == 2.0


def test_all_parts_are_measured_at_full_size_unless_told_otherwise():
    options = parse([])
    assert (options.rows, options.minutes, options.rate) == (10_000_000, 20, 500)
    assert parse(["--part", "table"]).part == ["table"]


@pytest.mark.process
def test_the_rows_are_those_of_a_table_in_use_and_none_of_them_moves(tmp_path):
    path = tmp_path / "growth.sqlite3"
    env = os.environ | {URL_VARIABLE: f"sqlite:///{path}", ROWS_VARIABLE: str(ROWS)}
    root = Path(__file__).resolve().parents[2]

    def ask(*words):
        command = [sys.executable, "-m", MODULE, "full, default", *words]
        done = subprocess.run(
            command, cwd=root, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()[-1]

    for verb in ("prepare", "make"):
        ask(verb)
    with sqlite3.connect(path) as database:
        [states] = [dict(database.execute("SELECT status, COUNT(*) FROM growth_full GROUP BY 1"))]
        [archived] = database.execute("SELECT COUNT(*) FROM growth_archivedfull").fetchone()
        [last] = database.execute("SELECT MAX(id) FROM growth_full").fetchone()
    assert states == {0: ROWS // 10, 2: ROWS, 3: ROWS // 10}
    assert (archived, last) == (ROWS, last_key(ROWS))
    assert ask("behind", "3600") == "[0, 0]"
    assert '"rows": [10]' in ask("promote", "10")
    assert ask("keep", "10").count('"rows": [10]') == 2
