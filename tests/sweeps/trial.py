"""One run of the scenario, with one fault, on rows made for it."""

import os
import random
import signal
import traceback
from pathlib import Path

from django.db import connection, connections

from tests.kit.waiting import wait_until
from tests.sweeps.places import numbered
from tests.sweeps.scenario import Scenario
from tests.sweeps.stage import prepare
from tests.sweeps.verdicts import Scene, confirmed_steps

SEED = int(os.environ.get("TEST_SWEEP_SEED", "5"))
# How many times as many places the short forms take.
TIMES = int(os.environ.get("TEST_SWEEP_TIMES", "1"))


def dice():
    """Each database takes places of its own: together they take more."""
    return random.Random(f"{SEED} {connection.vendor}")


class Kill:
    """The end of this very process, at one place."""

    def __init__(self, number, side):
        self.number, self.side = number, side

    def __call__(self, number, what, run):
        self.strike(number, "before")
        answer = run()
        self.strike(number, "after")
        return answer

    def strike(self, number, side):
        if (number, side) == (self.number, self.side):
            os.kill(os.getpid(), signal.SIGKILL)


class Trial:
    """Files of its own, and the rows as they are before the scenario."""

    def __init__(self, folder):
        self.log, self._confirmed = str(folder / "log"), str(folder / "confirmed")
        for path in (self.log, self._confirmed):
            Path(path).write_text("")
        prepare(self.log)

    def play(self, fault):
        """The scenario to its end; how many places it has."""
        with numbered(connection, fault) as places:
            scenario = Scenario(places, self.log, self._confirmed)
            scenario.run()
            scenario.worker.close()
        return places.count

    def play_in_child(self, fault):
        """Whether it was killed."""
        connections.close_all()
        # A descriptor of SQLite's must not cross the fork; threads of tests before may have one.
        wait_until(lambda: not open_database_files())
        pid = os.fork()
        if not pid:
            self._play_and_leave(fault)
        status = os.waitpid(pid, 0)[1]
        assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the scenario failed"
        return os.WIFSIGNALED(status)

    def _play_and_leave(self, fault):
        code = 1
        try:
            self.play(fault)
            code = 0
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(code)

    def scene(self):
        return Scene.now(self.log)

    def confirmed(self):
        return confirmed_steps(self._confirmed)


def open_database_files():
    if connection.vendor != "sqlite":
        return []
    name = str(connection.settings_dict["NAME"])
    return [link for link in map(_target, Path("/proc/self/fd").iterdir()) if name in link]


def _target(link):
    try:
        return str(link.readlink())
    except FileNotFoundError:  # closed meanwhile
        return ""
