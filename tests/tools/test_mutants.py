"""The tests notice when the package is broken on purpose; ``make mutants`` tries every mutant."""

import pytest

from tests.mutants import MUTANTS
from tests.mutants.mutant import ROOT
from tests.mutants.trial import CAUGHT, PARTS, Copy, Step

INTERLEAVING = (
    "tests/sweeps/test_interleaving.py"
    "::test_two_verbs_at_once_leave_what_one_after_the_other_leaves"
)
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
    edits = {tuple(mutant.edit) for mutant in MUTANTS}
    assert len(edits) == len(MUTANTS)
    assert len({str(mutant) for mutant in MUTANTS}) == len(MUTANTS)


def test_a_copy_has_every_folder_that_tests_import_from(pytestconfig):
    assert {path.name for path in pytestconfig.getini("pythonpath")} <= {*PARTS, ROOT.name}


@pytest.mark.nightly
@pytest.mark.process
@pytest.mark.parametrize("why", FIXED)
def test_the_interleaving_sweep_notices(why, tmp_path):
    [mutant] = [mutant for mutant in MUTANTS if mutant.why == why]
    copy = Copy(tmp_path / "copy", 0)
    found = copy.judge(mutant, [Step([INTERLEAVING], 600)])
    copy.remove_database()
    assert (found.word, found.by) == (CAUGHT, INTERLEAVING)
