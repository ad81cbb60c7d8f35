"""A worker is killed before, and again after, each statement of a scenario: nothing is lost."""

import gc
import os
import random
import signal
import traceback
from itertools import product
from pathlib import Path

import pytest
from django.db import connection, connections

from tests.sweeps.drain import drain, drain_after_death
from tests.sweeps.places import numbered, run_only
from tests.sweeps.scenario import Scenario
from tests.sweeps.stage import prepare
from tests.sweeps.verdicts import (
    Judge,
    Scene,
    check_any_time,
    check_nothing_undone,
    confirmed_steps,
)

pytestmark = pytest.mark.usefixtures("db_rows", "quiet_log")

SEED = int(os.environ.get("TEST_SWEEP_SEED", "5"))
EVERY = 6  # places of which the short form takes one


class Kill:
    """The end of this very process, at one place."""

    def __init__(self, number, side):
        self.number, self.side = number, side

    def __call__(self, number, what, run):
        if (number, self.side) == (self.number, "before"):
            os.kill(os.getpid(), signal.SIGKILL)
        answer = run()
        if (number, self.side) == (self.number, "after"):
            os.kill(os.getpid(), signal.SIGKILL)
        return answer


class Trial:
    """Files of its own, and the rows as they are before the scenario."""

    def __init__(self, folder):
        self.log, self.confirmed = str(folder / "log"), str(folder / "confirmed")
        for path in (self.log, self.confirmed):
            Path(path).write_text("")
        prepare(self.log)

    def play(self, fault):
        """The scenario to its end; how many places it has."""
        with numbered(connection, fault) as places:
            Scenario(places, self.log, self.confirmed).run()
        return places.count

    def play_in_child(self, fault):
        """Whether it was killed."""
        connections.close_all()
        assert not open_database_files(), "a descriptor of SQLite's crosses the fork"
        pid = os.fork()
        if not pid:
            self.play_and_leave(fault)
        status = os.waitpid(pid, 0)[1]
        assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the scenario failed"
        return os.WIFSIGNALED(status)

    def play_and_leave(self, fault):
        code = 1
        try:
            self.play(fault)
            code = 0
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(code)


def open_database_files():
    if connection.vendor != "sqlite":
        return []
    name = str(connection.settings_dict["NAME"])
    links = [Path(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
    return [str(link) for link in links if link.is_symlink() and name in os.readlink(link)]


def judge_death(trial):
    """Right after it, and once a healthy worker has done the rest."""
    before = Scene.now(trial.log)
    check_any_time(before)
    drain_after_death()
    after = Scene.now(trial.log)
    check_nothing_undone(before, after)
    Judge(confirmed_steps(trial.confirmed), cut_off=before.claimed()).check(after)


def test_without_a_fault_every_job_ends_as_it_should(tmp_path):
    trial = Trial(tmp_path)
    check_any_time(Scene.now(trial.log))
    trial.play(run_only)
    check_any_time(Scene.now(trial.log))
    drain()
    Judge(confirmed_steps(trial.confirmed)).check(Scene.now(trial.log))


@pytest.mark.proof
def test_a_kill_before_or_after_any_statement_loses_nothing(tmp_path, full):
    count = Trial(tmp_path).play(run_only)
    gc.collect()
    places = list(product(range(count), ("before", "after")))
    chosen = places if full else places[random.Random(SEED).randrange(EVERY) :: EVERY]
    killed, wrong = 0, []
    for number, side in chosen:
        trial = Trial(tmp_path)
        killed += trial.play_in_child(Kill(number, side))
        try:
            judge_death(trial)
        except AssertionError as error:
            wrong.append(f"{side} statement {number}: {error}")
            if not full:
                break
    print(
        f"seed {SEED}: {killed} kills at {len(chosen)} of {len(places)} places; wrong: {len(wrong)}"
    )
    assert not wrong, "\n".join(wrong)
    assert killed > len(chosen) * 0.9
