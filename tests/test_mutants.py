"""The tests notice when the package is broken on purpose; ``make mutants`` tries every mutant."""

import pytest

from tests.mutants import MUTANTS
from tests.mutants.mutant import ROOT
from tests.mutants.trial import CAUGHT, SURVIVED, Copy, verdict

INTERLEAVING = "tests/sweeps/test_interleaving.py"
# Two that are wrong only when another comes in between.
FIXED = (
    "a job is copied to the archive that has moved on since the look",
    "a job that moved on counts as reaped",
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_mutant_still_fits(mutant):
    text = (ROOT / mutant.path).read_text()
    changed = mutant.applied(text)
    assert changed != text
    compile(changed, mutant.path, "exec")


def test_a_mutant_that_fits_nowhere_or_twice_is_an_error():
    for text in ("", MUTANTS[0].old * 2):
        with pytest.raises(ValueError, match="found"):
            MUTANTS[0].applied(text)


def test_every_mutant_is_listed_once_and_breaks_something_else():
    edits = [(mutant.file, mutant.old, mutant.new) for mutant in MUTANTS]
    assert len(set(edits)) == len(edits)
    assert len({str(mutant) for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.nightly
@pytest.mark.process
@pytest.mark.parametrize("why", FIXED)
def test_the_interleaving_sweep_notices(why, tmp_path):
    [mutant] = [mutant for mutant in MUTANTS if mutant.why == why]
    found = Copy(tmp_path / "copy", 0).judge(mutant, [INTERLEAVING])
    assert found.word == CAUGHT
    assert found.by.startswith(INTERLEAVING)


def test_tests_that_pass_or_cannot_run_are_told_from_such_that_fail():
    assert verdict(0, "3 passed").word == SURVIVED
    assert verdict(1, "FAILED tests/test_x.py::test_y - E").by == "tests/test_x.py::test_y"
    with pytest.raises(RuntimeError, match="no such option"):
        verdict(4, "no such option")
