"""Which processes serve which queues."""

import random

import pytest

from django_dbqueue.worker.assignment import Assignment, QueueName
from django_dbqueue.worker.shares import ShareOut, targets

pytestmark = pytest.mark.any_database


def queue(name):
    return QueueName("default", "shop.job", name)


A, B, C = map(queue, "abc")


def new(count):
    return dict.fromkeys(range(count), frozenset())


def counted(shares):
    names = [name.queue for own in shares.values() for name in own]
    return {name: names.count(name) for name in sorted(names)}


def test_each_queue_has_one_and_the_rest_goes_where_there_is_most_to_do():
    assert targets(8, {A: 70.0, B: 10.0}) == {A: 7, B: 1}
    assert targets(8, {A: 1e6, B: 0.0}) == {A: 7, B: 1}
    assert targets(4, {A: 0.0, B: 0.0}) == {A: 2, B: 2}
    assert targets(1, {A: 1.0, B: 1.0}) == {A: 1, B: 1}


def test_new_children_go_to_the_neediest_queue():
    assert counted(ShareOut(new(4), {A: 30.0, B: 10.0}).run(shifts=0)) == {"a": 3, "b": 1}


def test_children_are_moved_by_no_more_than_a_shift():
    now = {0: frozenset({A}), 1: frozenset({A}), 2: frozenset({A}), 3: frozenset({B})}
    weights = {A: 1.0, B: 90.0}
    assert counted(ShareOut(now, weights).run(shifts=0)) == {"a": 3, "b": 1}
    assert counted(ShareOut(now, weights).run(shifts=1)) == {"a": 2, "b": 2}
    assert counted(ShareOut(now, weights).run(shifts=9)) == {"a": 1, "b": 3}


def test_nobody_is_moved_once_each_queue_has_its_part():
    now = {0: frozenset({A}), 1: frozenset({A}), 2: frozenset({B}), 3: frozenset({B})}
    for weights in ({A: 1.1, B: 1.0}, {A: 1.0, B: 1.1}):
        assert ShareOut(now, weights).run(shifts=9) == now


def test_a_queue_without_a_child_is_given_one_at_once():
    now = {0: frozenset({A}), 1: frozenset({A})}
    assert counted(ShareOut(now, {A: 90.0, B: 0.0}).run(shifts=0)) == {"a": 1, "b": 1}


def test_what_nobody_needs_any_more_is_forgotten():
    now = {0: frozenset({A}), 1: frozenset({B})}
    assert counted(ShareOut(now, {A: 1.0}).run(shifts=0)) == {"a": 2}
    assert ShareOut(now, {}).run(shifts=1) == new(2)


def test_with_fewer_children_than_queues_the_one_with_least_to_do_has_several():
    shares = ShareOut(new(2), {A: 90.0, B: 2.0, C: 1.0}).run(shifts=0)
    assert shares == {0: {A}, 1: {B, C}}
    # A third child takes one of them over.
    shares = ShareOut(shares | {2: frozenset()}, {A: 90.0, B: 2.0, C: 1.0}).run(shifts=1)
    assert counted(shares) == {"a": 1, "b": 1, "c": 1}


@pytest.mark.parametrize("busy", [A, B, C])
def test_a_growing_worker_gives_no_process_to_a_queue_in_which_nothing_waits(busy):
    """One is enough for all of these together, whichever comes first."""
    weights, shares = {A: 0.0, B: 0.0, C: 0.0} | {busy: 500.0}, new(1)
    for count in range(1, 6):
        now = {child: shares.get(child, frozenset()) for child in range(count)}
        shares = ShareOut(now, weights).run(shifts=0)
        shares = ShareOut(shares, weights).run(shifts=1)
        own = [names for names in shares.values() if names == {busy}]
        assert len(own) == count - 1
        others = {name for names in shares.values() for name in names - {busy}}
        assert others == weights.keys() - {busy}


def test_what_has_no_job_keeps_the_process_that_it_had_for_itself():
    now = {0: frozenset({A}), 1: frozenset({B}), 2: frozenset({C}), 3: frozenset()}
    shares = ShareOut(now, {A: 9.0, B: 0.0, C: 0.0}).run(shifts=1)
    assert counted(shares) == {"a": 2, "b": 1, "c": 1}


def test_once_a_job_waits_a_queue_no_longer_shares_its_process():
    now = {0: frozenset({B, C}), 1: frozenset({A}), 2: frozenset({A})}
    shares = ShareOut(now, {A: 900.0, B: 1.0, C: 0.0}).run(shifts=1)
    assert sorted(map(sorted, shares.values())) == [[A], [B], [C]]


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_every_queue_has_a_child_and_every_child_a_queue(seed):
    chance = random.Random(seed)
    names, shares = [queue(f"q{n}") for n in range(8)], new(1)
    for _ in range(200):
        weights = {
            name: chance.choice([0.0, 1.0, chance.random() * 1000])
            for name in chance.sample(names, chance.randint(1, 8))
        }
        children = chance.sample(range(6), chance.randint(1, 6))
        now = {child: shares.get(child, frozenset()) for child in children}
        shares = ShareOut(now, weights).run(shifts=chance.randint(0, 2))
        assert {name for own in shares.values() for name in own} == set(weights)
        assert all(shares[child] for child in children)
    for _ in range(20):
        shares = ShareOut(shares, weights).run(shifts=1)
    if len(children) >= len(weights):
        with_several = [own for own in shares.values() if len(own) > 1]
        assert not any(weights[name] for own in with_several for name in own)
        assert len(with_several) < 2
        if not with_several:
            counts = {name: sum(name in own for own in shares.values()) for name in weights}
            assert counts == targets(len(children), weights)


def test_a_child_reads_the_queues_that_it_leaves_to_others():
    assignment = Assignment()
    odd = [A, QueueName("default", "shop.job", "ä:b\n\udcff")]
    assert (assignment.version, assignment.left_to_others()) == (0, frozenset())
    assignment.leave(odd)
    assert (assignment.version, assignment.left_to_others()) == (2, frozenset(odd))
    assignment.leave([])
    assert (assignment.version, assignment.left_to_others()) == (4, frozenset())


def test_of_names_that_take_too_much_room_the_last_ones_are_everybodys():
    assignment = Assignment()
    many = [queue(f"{n:04}{'x' * 190}") for n in range(1000)]
    assignment.leave(many)
    left = assignment.left_to_others()
    assert 200 < len(left) < 1000
    assert left < set(many)
