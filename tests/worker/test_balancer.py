"""What a worker tells its children of queues: who serves which, and what it says of that."""

from types import SimpleNamespace
from typing import Any

import pytest

from django_dbqueue.worker.assignment import Assignment, QueueName
from django_dbqueue.worker.balancer import KEEP_SECONDS, Balancer
from django_dbqueue.worker.channel import Waiting
from django_dbqueue.worker.options import Options
from django_dbqueue.worker.run_times import MeanRunTimes, RunTimes
from django_dbqueue.worker.scaling_options import ScalingOptions
from django_dbqueue.worker.served import parse_served

pytestmark = pytest.mark.any_database

TABLE = "queueapp.note"
COOLDOWN = 3.0


def queue(name: str) -> QueueName:
    return QueueName("default", TABLE, name)


class Scene:
    """A balancer of so many children, and a clock."""

    def __init__(self, children: int, *named: str, **options: Any) -> None:
        self.now, self.means = 1000.0, MeanRunTimes()
        served = parse_served([f"{TABLE}:{name}" for name in named] or [TABLE])
        given: dict[str, Any] = {"balance": "auto", "balance_cooldown": COOLDOWN}
        scaling = ScalingOptions(**(given | options))
        self.balancer = Balancer(Options(served=served, scaling=scaling), None, self.means)
        self.children: list[Any] = []
        for _ in range(children):
            self.comes()

    def comes(self) -> None:
        child = SimpleNamespace(
            pid=len(self.children),
            queues=frozenset(),
            left_to_others=frozenset(),
            assignment=Assignment(),
        )
        self.children.append(child)

    def turn(self, after: float = 0, *, may_shift: bool = True, **jobs: int) -> str:
        self.now += after
        self.balancer.note([Waiting(queue(name), n, 0.0) for name, n in jobs.items()], self.now)
        return self.balancer.turn(self.children, self.now, may_shift=may_shift)

    @property
    def counts(self) -> dict[str, int]:
        return {name.queue: number for name, number in sorted(self.balancer.counts.items())}


def test_each_child_leaves_to_others_what_it_has_not():
    scene = Scene(2)
    said = scene.turn(a=3, b=1)
    assert scene.counts == {"a": 1, "b": 1}
    for child in scene.children:
        assert child.queues | child.assignment.left_to_others() == {queue("a"), queue("b")}
        assert not child.queues & child.assignment.left_to_others()
    assert said == (
        "processes by queue: queueapp.note:a 0 -> 1 (jobs that wait: 3, 3 s of work), "
        "queueapp.note:b 0 -> 1 (jobs that wait: 1, 1 s of work)"
    )


def test_it_goes_by_how_long_jobs_take_or_by_their_number():
    times = RunTimes()
    times.add(*queue("slow"), seconds=90.0, count=10)
    times.add(*queue("quick"), seconds=1.0, count=100)
    for by, expected in (("time", {"quick": 1, "slow": 3}), ("size", {"quick": 3, "slow": 1})):
        scene = Scene(4, balance_by=by)
        scene.means.look([(1, times)])
        scene.turn(slow=10, quick=500)
        assert scene.counts == expected


def test_simply_means_that_all_queues_count_alike():
    scene = Scene(4, "a", "b", balance="simple")
    scene.turn(a=1000)
    assert scene.counts == {"a": 2, "b": 2}


def test_children_are_moved_once_in_a_while_and_a_queue_without_one_is_served_at_once():
    scene = Scene(4, balance_max_shift=2)
    scene.turn(a=100, b=1)
    assert scene.counts == {"a": 3, "b": 1}
    assert scene.turn(after=COOLDOWN - 0.1, a=1, b=100) == ""
    assert scene.counts == {"a": 3, "b": 1}
    scene.turn(after=0.1, a=1, b=100)
    assert scene.counts == {"a": 1, "b": 3}
    scene.turn(a=1, b=100, c=1)
    assert scene.counts["c"] == 1


def test_while_too_little_is_known_nobody_is_moved_but_a_new_child_gets_a_queue():
    scene = Scene(3)
    scene.turn(a=100, b=1)
    assert scene.turn(after=2 * COOLDOWN, may_shift=False, a=1, b=100) == ""
    assert scene.counts == {"a": 2, "b": 1}
    scene.comes()
    scene.turn(may_shift=False, a=1, b=100)
    assert scene.counts == {"a": 2, "b": 2}


def test_what_was_read_of_a_queue_is_kept_for_a_minute_and_a_named_one_for_ever():
    scene = Scene(2, "named")
    scene.turn(other=5)
    assert scene.counts == {"named": 1, "other": 1}
    scene.turn(after=KEEP_SECONDS - 1)
    assert scene.counts == {"named": 1, "other": 1}
    said = scene.turn(after=2)
    assert said == "processes by queue: queueapp.note:named 1 -> 2 (jobs that wait: 0)"
    assert scene.counts == {"named": 2}


def test_a_single_child_has_all_queues_and_nothing_is_said_of_it():
    scene = Scene(1)
    assert scene.turn(a=1, b=1) == ""
    assert scene.children[0].assignment.left_to_others() == frozenset()
    assert scene.balancer.shown() == {"queueapp.note:a": 1, "queueapp.note:b": 1}


def test_how_many_queues_have_jobs_that_wait_is_known():
    scene = Scene(1)
    scene.turn(a=1, b=1)
    assert scene.balancer.busy_queues == 2
    scene.turn()
    assert scene.balancer.busy_queues == 0
