"""Each error of the catalogue before, and again after, each statement: no job pays for it."""

from itertools import product

import pytest
from django.db import connection

from tests.sweeps.codes import CLASSES, CODES, Raise
from tests.sweeps.drain import drain
from tests.sweeps.places import Seen
from tests.sweeps.trial import SEED, TIMES, Trial, dice
from tests.sweeps.verdicts import Judge, check_any_time

pytestmark = pytest.mark.usefixtures("db_rows", "quiet_log", "unsynced")

SIDES = ("before", "after")
EVERY = 36  # statements of which the short form takes one, apart from those that write
# Their run() asks the database for something; save() is Django's, in the job's own hands.
WORK_ON_DATABASE = frozenset({"touches", "releases", "completes", "saves"})


def judge_error(trial, fault):
    check_any_time(trial.scene())
    drain()
    code = fault.code
    Judge(
        trial.confirmed(),
        may_repeat=code.is_unknown or fault.hit == "autocommit",
        may_meet_error=frozenset({"saves"}) if code.is_again else WORK_ON_DATABASE,
    ).check(trial.scene())


def points(seen, full):
    """(number, code, side); the short form takes one class of errors at each, mostly an answer
    that was lost."""
    codes = CODES[connection.vendor]
    if full:
        return list(product(range(len(seen)), codes, SIDES))
    chance, every = dice(), EVERY // TIMES
    others = range(chance.randrange(every), len(seen), every)
    places = [*product(seen.writes(chance, TIMES), ["after"]), *product(others, ["before"])]
    classes = codes[: CLASSES[connection.vendor]]
    return [(number, chance.choice(classes), side) for number, side in places]


@pytest.mark.proof
def test_an_error_before_or_after_any_statement_harms_no_job(tmp_path, full):
    seen = Seen()
    Trial(tmp_path).play(seen)
    chosen = points(seen, full)
    raised, wrong = 0, []
    for number, code, side in chosen:
        trial, fault = Trial(tmp_path), Raise(number, code, side)
        try:
            trial.play(fault)
            judge_error(trial, fault)
        except AssertionError as error:
            wrong.append(f"{code.name} {side} statement {number}, {fault.hit}: {error}")
            assert full, wrong
        raised += fault.hit is not None
    print(f"seed {SEED}: {raised} errors at {len(chosen)} points, {len(seen)} statements: {wrong}")
    assert not wrong, "\n".join(wrong)
    # Where an error ends a thing sooner, the last places are never come to.
    assert raised > len(chosen) * 0.85
