"""When a worker takes one more process, or one less: in virtual time, without processes."""

import math

import pytest

from django_dbqueue.conf.bounds import ProcessRange
from django_dbqueue.dialects.types import ConnectionRoom
from django_dbqueue.worker.assignment import QueueName
from django_dbqueue.worker.channel import Waiting
from django_dbqueue.worker.pool import LEFT_TO_OTHERS, Figures, Pool
from django_dbqueue.worker.scaling_options import ScalingOptions

pytestmark = pytest.mark.any_database

DEFAULT = QueueName("default", "shop.thumbnail", "default")
CONNECTIONS = 3


class Simulation:
    """A pool, and a clock that moves by a second a look."""

    def __init__(self, bounds=(1, 4), **options):
        self.pool = Pool(ProcessRange(*bounds), ScalingOptions(**options), CONNECTIONS)
        self.count, self.now, self.decisions = bounds[0], 100.0, []

    def look(self, seconds, *, there=None, fresh=True, **figures):
        """For so long, at the same figures."""
        for _ in range(seconds):
            version = self.now if fresh else 0.0
            seen = Figures(**self.figures(version, **figures))
            there = self.count if there is None else there
            decision = self.pool.decide(self.now, self.count, max(there, self.count), seen)
            if decision is not None:
                assert decision.before == self.count
                self.count = decision.after
                self.decisions.append((self.now, str(decision)))
            self.now += 1.0
        return self.count

    def figures(self, version, waited=None, jobs=1, clear=None, running=0, rooms=(), queues=0):
        waiting = [] if waited is None else [Waiting(DEFAULT, jobs, waited)]
        load = float(running)
        return {
            "version": version,
            "waiting": waiting,
            "seconds_to_clear": clear,
            "running": running,
            "load": load,
            "rooms": rooms,
            "queues": queues,
        }


def test_it_grows_by_a_step_each_cooldown_while_the_oldest_job_waits_too_long():
    simulation = Simulation()
    assert simulation.look(1, waited=14.3) == 2
    [(_, text)] = simulation.decisions
    assert text == "1 -> 2 processes: the oldest job of shop.thumbnail:default has waited 14 s"
    assert simulation.look(2, waited=20) == 2
    assert simulation.look(1, waited=20) == 3
    assert simulation.look(20, waited=20) == 4


def test_it_grows_while_what_is_ready_would_take_too_long():
    simulation = Simulation(balance_max_shift=2)
    assert simulation.look(1, waited=0.1, jobs=5000, clear=100) == 3
    assert simulation.decisions[0][1] == (
        "1 -> 3 processes: 5,000 jobs are ready, for which 1 process needs 2 min"
    )
    assert simulation.look(3, waited=4, jobs=4900, clear=30) == 4


def test_a_single_job_is_told_as_one():
    simulation = Simulation()
    assert simulation.look(1, waited=0.1, jobs=1, clear=30) == 2
    assert "1 job is ready, for which" in simulation.decisions[0][1]


@pytest.mark.parametrize(
    "figures",
    [
        {"waited": 5, "clear": 5},
        {"waited": 100, "clear": 0.1},  # it is done within a moment
        {"waited": None},
        {"waited": 5},
    ],
)
def test_it_does_not_grow_while_nothing_waits_for_too_long(figures):
    assert Simulation().look(30, **figures) == 1


def test_it_grows_where_nobody_knows_how_long_a_job_takes():
    assert Simulation().look(1, waited=5.1, clear=None) == 2


def test_nothing_is_decided_twice_on_the_same_figures():
    assert Simulation().look(30, waited=60, fresh=False) == 2


def test_one_that_is_leaving_has_its_place_until_it_has_left():
    simulation = Simulation(bounds=(1, 2))
    assert simulation.look(5, waited=60, there=2) == 1
    assert simulation.look(1, waited=60, there=1) == 2


def test_it_shrinks_one_by_one_once_fewer_would_have_done_for_three_cooldowns():
    simulation = Simulation()
    simulation.look(10, waited=60)
    assert simulation.count == 4
    assert simulation.look(9, running=3) == 4
    assert simulation.look(1, running=3) == 3
    assert simulation.decisions[-1][1] == "4 -> 3 processes: for 9 s at most 3 jobs ran at once"
    assert simulation.look(40) == 1
    assert simulation.decisions[-1][1] == "2 -> 1 processes: for 9 s no job ran"
    assert simulation.look(40) == 1


@pytest.mark.parametrize(
    "figures",
    [
        {"running": 2},  # all at work
        {"waited": 2.6},  # more than half of what may be
        {"waited": 0.1, "clear": 1.3},  # which would be as much
        {"queues": 2},
    ],
)
def test_it_does_not_shrink_while_the_others_would_not_do(figures):
    simulation = Simulation(bounds=(1, 2))
    simulation.look(1, waited=60)
    assert simulation.look(50, **figures) == 2
    # A busy moment counts, however idle the rest.
    for _ in range(5):
        simulation.look(8)
        simulation.look(1, **figures)
    assert simulation.count == 2


def test_a_break_in_the_figures_is_no_idleness():
    simulation = Simulation(bounds=(1, 2))
    simulation.look(1, waited=60)
    simulation.look(8)
    simulation.pool.rest()
    assert simulation.look(9) == 2
    assert simulation.look(1) == 1


def room(free):
    return [("default", ConnectionRoom(100, 100 - free, "max_connections"))]


def test_it_never_takes_connections_that_others_need():
    simulation = Simulation()
    few = LEFT_TO_OTHERS + CONNECTIONS - 1
    assert simulation.look(20, waited=14, rooms=room(few)) == 1
    assert simulation.pool.held == (
        "stays at 1 process: the oldest job of shop.thumbnail:default has waited 14 s, but 7 of "
        "100 connections to default are free (max_connections), one more process may need 3, and "
        "5 are left to others"
    )
    assert simulation.look(1, waited=14, rooms=room(few + 1)) == 2
    assert simulation.pool.held == ""


def test_a_step_is_as_large_as_the_connections_allow():
    simulation = Simulation(bounds=(1, 9), balance_max_shift=5)
    assert simulation.look(1, waited=14, rooms=room(LEFT_TO_OTHERS + 2 * CONNECTIONS)) == 3


def test_queues_with_jobs_are_to_have_a_process_each():
    simulation = Simulation()
    assert simulation.look(20, waited=0.1, clear=0.1, queues=3) == 3
    assert simulation.look(20, waited=0.1, clear=0.1, queues=9) == 4


def test_a_burst_of_jobs_is_cleared_sooner_and_the_worker_is_small_again():
    """5,000 jobs of 20 ms, all at once: by steps, what is left and what that takes is counted."""
    simulation, left, seconds = Simulation(), 5000.0, 0
    while left > 0:
        per_second = 50 * simulation.count
        waited = math.inf if left > per_second else 0
        simulation.look(
            1,
            waited=min(waited, seconds),
            jobs=int(left),
            clear=left / per_second,
            running=simulation.count,
        )
        left, seconds = left - per_second, seconds + 1
    assert seconds == pytest.approx(30, abs=3)  # 100 with one process, 25 with four
    simulation.look(60)
    assert simulation.count == 1
