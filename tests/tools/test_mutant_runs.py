"""``python -m tests.mutants``: what counts as caught, how long that may take, what is known."""

import pytest

from tests.kit.processes import has_ended
from tests.kit.waiting import wait_until
from tests.mutants import baseline, record
from tests.mutants.baseline import Known, NotGreen
from tests.mutants.campaign import Campaign
from tests.mutants.lines import lines_of
from tests.mutants.mutant import ROOT, Mutant
from tests.mutants.plan import LEAST, TIMES, steps_for
from tests.mutants.record import Record, key_of
from tests.mutants.report import report
from tests.mutants.selection import FILES, files_for, path_of
from tests.mutants.trial import CAUGHT, SURVIVED, Copy, Step, Verdict

pytestmark = [pytest.mark.any_database, pytest.mark.process]

EDIT = ("backoff.py", "return self.pause\n", "return 0\n")
MUTANT = Mutant(*EDIT, "it does not wait")
ELSEWHERE = Mutant("backoff.py", "return self.pauses", "return self.cap", "it is another")
HARMLESS = Mutant(*EDIT[:2], "return self.pause + 0\n", "it waits as long", harmless="it does")
MINE = "tests/test_mine.py"
WAITS = "from django_dbqueue.backoff import Fixed\ndef test_it_waits(): assert Fixed(5).seconds(1)"
SLEEPS = """
import subprocess, time
from pathlib import Path
def test_it_sleeps():
    sleeper = subprocess.Popen(["sleep", "600"], start_new_session=True)
    Path("pid").write_text(str(sleeper.pid))
    time.sleep(600)
"""
FAILS_ONCE = """
import pytest
from pathlib import Path
@pytest.mark.process
def test_it_fails_once():
    before, _ = Path("seen").exists(), Path("seen").touch()
    assert before
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    copy = Copy(tmp_path_factory.mktemp("copies") / "copy", 0)
    yield copy
    copy.remove_database()


def write(copy, text, name=MINE):
    (copy.folder / name).write_text(text)


def step(*names, seconds=180, are_shaky=False):
    return [Step([f"{MINE}::{name}" for name in names], seconds, are_shaky)]


def test_a_mutant_is_caught_by_the_test_that_fails_and_leaves_the_copy_as_it_was(copy):
    write(copy, WAITS)
    assert copy.judge(MUTANT, step("test_it_waits")) == Verdict(CAUGHT, f"{MINE}::test_it_waits")
    assert copy.judge(HARMLESS, step("test_it_waits")) == Verdict(SURVIVED)
    assert (copy.folder / MUTANT.path).read_text() == (ROOT / MUTANT.path).read_text()


@pytest.mark.nightly
def test_a_mutant_that_hangs_is_caught_and_nothing_of_it_goes_on(copy):
    write(copy, SLEEPS)
    assert copy.judge(MUTANT, step("test_it_sleeps", seconds=10)) == Verdict(CAUGHT, "it hangs")
    sleeper = int((copy.folder / "pid").read_text())
    wait_until(lambda: has_ended(sleeper))


@pytest.mark.nightly
def test_a_test_of_processes_has_to_fail_twice_and_those_after_it_are_run(copy):
    write(copy, FAILS_ONCE + WAITS)
    steps = step("test_it_fails_once", "test_it_waits", are_shaky=True)
    assert copy.judge(MUTANT, steps) == Verdict(CAUGHT, f"{MINE}::test_it_waits")


@pytest.mark.nightly
def test_tests_that_cannot_run_judge_nothing(copy):
    with pytest.raises(RuntimeError, match="not found"):
        copy.judge(MUTANT, [Step(["tests/test_none.py::test_it"], 60)])


def test_tests_that_fail_without_a_mutant_end_the_run_and_the_others_are_recorded(copy, tmp_path):
    record, green = Record(tmp_path / "record.jsonl"), "tests/worker/test_guard.py"
    write(copy, "def test_never(): assert False")
    write(copy, WAITS, green)
    with pytest.raises(NotGreen, match=r"test_mine\.py::test_never"):
        baseline.measure(copy, record, "sqlite", [MINE, green])
    tests, missing = baseline.look_up(record, [("sqlite", MINE), ("sqlite", green)])
    assert missing == [("sqlite", MINE)]
    [known] = tests["sqlite"]
    assert (known.name, known.is_shaky) == (f"{green}::test_it_waits", False)
    for mutant, reached in ((MUTANT, True), (ELSEWHERE, False)):
        lines = lines_of(mutant, (ROOT / mutant.path).read_text())
        assert known.reaches(str(mutant.path), baseline.packed(lines)) == reached


@pytest.mark.nightly
def test_a_run_goes_on_from_its_record_even_if_that_ends_in_the_middle_of_a_line(tmp_path, capsys):
    path, verdicts = tmp_path / "record.jsonl", []
    path.write_text('{"key": "12')
    for known in range(2):
        with Campaign(1, Record(path), lambda _: ["tests/worker/test_jitter.py"]) as campaign:
            verdicts += campaign.run([MUTANT])
        assert f"1 mutants, {known} known from before" in capsys.readouterr().out
    assert verdicts[0] == verdicts[1]


def test_a_project_that_changes_meanwhile_judges_no_mutant(tmp_path, monkeypatch):
    """Its tests are not known any more: without any, every mutant would survive."""
    monkeypatch.setattr(baseline, "measure", lambda *_, **__: None)
    record = Record(tmp_path / "record.jsonl")
    asked = Campaign(1, record, lambda _: ["tests/worker/test_jitter.py"])
    with asked as campaign, pytest.raises(NotGreen, match="was changed meanwhile"):
        campaign.run([MUTANT])


# --- which tests, and in which order --------------------------------------------------------------


def known(name, seconds=1.0, *lines, is_shaky=False):
    packed = {str(MUTANT.path): baseline.packed(lines)} if lines else {}
    return Known(f"tests/test_{name}", seconds, is_shaky, packed)


def test_first_what_reaches_it_where_it_is_likely_then_elsewhere_then_the_rest():
    [line] = lines_of(MUTANT, (ROOT / MUTANT.path).read_text())
    tests = [
        known("likely.py::test_slow", 9.0, line),
        known("likely.py::test_quick", 1.0, line),
        known("likely.py::test_of_another_line", 1.0, line + 1),
        known("likely.py::test_of_processes", 1.0, is_shaky=True),
        known("meant.py::test_of_another_line"),
        known("other.py::test_it", 1.0, line),
        known("other.py::test_endless", 1000.0, line),
        known("other.py::test_of_processes", 1.0, line, is_shaky=True),
    ]
    files = ["tests/test_likely.py", "tests/test_meant.py"]
    near, rest, processes, _ = steps_for(MUTANT, tests, files, {"tests/test_meant.py"})
    assert near.tests == [tests[4].name, tests[1].name, tests[0].name]
    assert rest.tests == [tests[5].name, tests[2].name]
    assert (processes.tests, processes.are_shaky) == ([tests[3].name], True)
    assert near.seconds == LEAST + TIMES * 11


def test_what_survives_the_short_sweeps_is_tried_with_every_place():
    name = "tests/sweeps/test_crash.py::test_it"
    tests = [Known(name, 2.0, is_shaky=False, lines={}), known("likely.py::test_it")]
    *_, last = steps_for(MUTANT, tests, [tests[0].file, tests[1].file], set())
    assert (last.tests, last.is_full) == ([name], True)


TEXT = """
LIMIT = 5

def first(value):
    if (
        value > LIMIT
        and value
    ):
        return call(
            value,
        )
    try:
        return 1
    except ValueError:
        return 2
"""


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("LIMIT = 5", "LIMIT = 6", {2}),
        ("and value", "or value", {5, 6, 7, 8}),
        ("            value,\n", "", {9, 10, 11}),
        ("        return 1\n    except", "        pass\n    except", {13}),
        ("except ValueError", "except KeyError", {14}),
        ("return 1\n    except ValueError:\n        return 2", "return 2", {13, 14, 15}),
    ],
)
def test_a_mutant_changes_the_lines_of_its_statements_and_not_those_inside_them(old, new, lines):
    assert lines_of(Mutant("backoff.py", old, new, "for the test"), TEXT) == lines


def test_what_caught_it_the_last_time_is_known_whatever_has_changed_since(tmp_path):
    record = Record(tmp_path / "record.jsonl")
    record.add("some key", edit=MUTANT.edit, word=CAUGHT, by="tests/test_slow.py::test_it")
    assert Record(record.path).last_caught_by(MUTANT) == "tests/test_slow.py::test_it"
    assert Record(record.path, fresh=True).last_caught_by(MUTANT) == ""


def test_what_was_found_out_with_other_tests_or_another_package_counts_no_more(tmp_path):
    keys = set()
    for number, (package, test) in enumerate([("1", "1"), ("2", "1"), ("2", "2")]):
        root = tmp_path / str(number)
        (root / "django_dbqueue").mkdir(parents=True)
        (root / "django_dbqueue" / "a.py").write_text(package)
        (root / "test.py").write_text(test)
        keys |= {key_of(MUTANT.edit, ["test.py"], root), key_of(MUTANT.edit, [], root)}
    assert len(keys) == 5


def test_files_that_share_helpers_are_told_apart(tmp_path):
    for path in ("tests/worker/test_x.py", "tests/worker/test_y.py", "tests/worker/helper.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("1")
    keys = {key_of("x", [f"tests/worker/test_{name}.py"], tmp_path) for name in "xy"}
    assert len(keys) == 2


def test_what_else_is_in_the_project_does_not_matter_not_even_the_record_itself(tmp_path):
    for path in ("tests/worker/test_x.py", "django_dbqueue/x.py", "setup.cfg", "manage.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("1")
    before = key_of("x", ["tests/worker/test_x.py"], tmp_path)
    record._hash_of.cache_clear()
    (tmp_path / "build.jsonl").write_text("{}")
    assert key_of("x", ["tests/worker/test_x.py"], tmp_path) == before


def test_the_most_specific_line_of_the_table_says_which_files_are_tried():
    mutant = Mutant("worker/queue_poller.py", "", "", "", tests=("tests/test_mine.py",))
    expected = ["tests/test_mine.py", *map(path_of, FILES["worker/queue_poller.py"].split())]
    assert files_for(mutant) == expected
    assert path_of("sweeps/crash") == "tests/sweeps/test_crash.py"


def test_every_file_of_the_table_is_there():
    names = {name for names in FILES.values() for name in names.split()}
    assert [name for name in sorted(names) if not (ROOT / path_of(name)).exists()] == []


def test_the_report_names_who_survived_and_counts_the_others(capsys):
    other = Mutant("guard.py", "a", "b", "nobody notices")
    found = [Verdict(CAUGHT, f"{MINE}::test_it"), Verdict(SURVIVED), Verdict(SURVIVED)]
    assert report([MUTANT, HARMLESS, other], found, [], 1.0) == 1
    said = capsys.readouterr().out
    assert "survived: guard.py: nobody notices" in said
    assert "\nsurvived: backoff.py" not in said
    assert said.endswith("caught 1 of 2\n")
    assert report([MUTANT], found[:1], [], 1.0) == 0
