"""A worker is killed before, and again after, each statement of a scenario: nothing is lost."""

import gc
from itertools import product

import pytest

from tests.sweeps.drain import drain, drain_after_death
from tests.sweeps.places import Seen
from tests.sweeps.trial import SEED, TIMES, Kill, Trial, dice
from tests.sweeps.verdicts import Judge, check_any_time, check_nothing_undone

pytestmark = pytest.mark.usefixtures("db_rows", "quiet_log", "unsynced")


def some(seen):
    """After each kind of write, and before what only half of a move is behind."""
    chosen = list(seen.writes(dice(), TIMES))
    halves = [number for number in chosen if seen[number].startswith("DELETE")]
    return [*product(chosen, ["after"]), *product(halves, ["before"])]


def judge_death(trial):
    """Right after it, and once a healthy worker has done the rest."""
    before = trial.scene()
    check_any_time(before)
    drain_after_death()
    after = trial.scene()
    check_nothing_undone(before, after)
    Judge(trial.confirmed(), cut_off=before.claimed()).check(after)


def test_without_a_fault_every_job_ends_as_it_should(tmp_path):
    trial = Trial(tmp_path)
    check_any_time(trial.scene())
    trial.play(Seen())
    check_any_time(trial.scene())
    drain()
    Judge(trial.confirmed()).check(trial.scene())


@pytest.mark.proof
def test_a_kill_before_or_after_any_statement_loses_nothing(tmp_path, full):
    seen = Seen()
    Trial(tmp_path).play(seen)
    gc.collect()
    places = list(product(range(len(seen)), ("before", "after")))
    chosen = places if full else some(seen)
    killed, wrong = 0, []
    for number, side in chosen:
        trial = Trial(tmp_path)
        killed += trial.play_in_child(Kill(number, side))
        try:
            judge_death(trial)
        except AssertionError as error:
            wrong.append(f"{side} statement {number}: {error}")
            assert full, wrong
    print(f"seed {SEED}: {killed} kills at {len(chosen)} of {len(places)} places, wrong: {wrong}")
    assert not wrong, "\n".join(wrong)
    assert killed > len(chosen) * 0.9
