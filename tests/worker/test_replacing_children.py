"""How children end and are followed by others: real forks, but of this process."""

import os
import signal

import pytest

from django_dbqueue.worker import child as child_module
from django_dbqueue.worker import children as children_module
from django_dbqueue.worker.children import FREE_DEATHS, YOUNG_SECONDS, Children
from tests.kit.forked_children import end, exited_children, fill, kill, live

pytestmark = [
    pytest.mark.any_database,
    pytest.mark.process,
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]


@pytest.fixture
def start(db_rows):
    """Children that are gone afterwards."""
    made = []

    def start(processes, body=live, share=None):
        made.append(Children([share] * processes, 1, "a" * 32, body))
        fill(made[-1])
        return made[-1]

    yield start
    for children in made:
        end(children)


def exited(children):
    [found] = exited_children(children, 1)
    return found


def kill_on_purpose(children):
    for child in children.living.values():
        child.kill_soon()
    children.kill_due()


# --- one after the other --------------------------------------------------------------------------


def test_children_are_replaced_one_by_one(start):
    children = start(3)
    before = list(children.living)
    children.replace_all()
    for gone in range(1, 4):
        for _ in range(5):
            children.replace_next()
            fill(children)
        leaving = [child.pid for child in children.living.values() if child.leaving]
        assert (len(leaving), len(children.living)) == (1, 4)
        assert exited(children).child.pid == leaving[0]
        assert len(set(before) & set(children.living)) == 3 - gone
    children.replace_next()
    assert not any(child.leaving for child in children.living.values())
    assert len(children.living) == 3


def test_a_child_that_died_meanwhile_is_not_waited_for(start):
    children = start(2)
    children.replace_all()
    children.replace_next()
    first, second = children.living
    os.kill(second, signal.SIGKILL)
    exited_children(children, 2)
    children.replace_next()
    fill(children)
    assert not {first, second} & set(children.living)
    assert len(children.living) == 2


def test_where_jobs_are_counted_a_child_is_followed_once_it_is_known_how_many_are_left(start):
    children = start(1, share=5)
    [first] = children.living.values()
    first.shared.slot(0).start(b"default\x1ftwo", 0.0, 1.0, jobs=2)
    children.replace_all()
    children.replace_next()
    fill(children)
    assert len(children.living) == 1
    assert exited(children).child is first
    fill(children)
    assert [child.share for child in children.living.values()] == [3]


# --- killed on purpose, or crashed ----------------------------------------------------------------


def test_a_child_that_we_kill_has_not_crashed(start):
    children = start(1)
    kill_on_purpose(children)
    found = exited(children)
    assert (found.code, found.is_crash) == (-signal.SIGKILL, False)


@pytest.mark.parametrize("body", [lambda *_: os._exit(0), lambda *_: 0], ids=["exit", "return"])
def test_a_child_that_leaves_without_a_word_has_crashed_whatever_its_exit_code(start, body):
    found = exited(start(1, body))
    assert (found.code, found.is_crash) == (0, True)


def test_a_child_that_was_asked_to_leave_has_not_crashed(start):
    children = start(1)
    [child] = children.living.values()
    child.ask_to_stop()
    assert not exited(children).is_crash


class Clock:
    """By which children are young, and come back; it stands still unless it is set."""

    now = 1000.0

    def monotonic(self):
        return self.now

    def fill(self, children):
        known = set(children.living)
        wait = fill(children)
        for pid in children.living.keys() - known:
            children.living[pid].started_at = self.now
        return wait


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    for module in (child_module, children_module):
        monkeypatch.setattr(module, "time", clock)
    return clock


def test_children_that_crash_young_come_back_later_and_later(start, clock):
    children = start(0)
    children.shares.append(None)
    waits = []
    for _ in range(FREE_DEATHS + 12):
        clock.fill(children)
        kill(children)
        exited(children)
        waits.append(children.fill(refuse) if len(waits) >= FREE_DEATHS else 0)
        clock.now += waits[-1]
    assert waits == sorted(waits)
    assert 0 < waits[FREE_DEATHS] < 1
    assert waits[-2:] == [30, 30]


def refuse(shared):
    pytest.fail("it is forked too soon")


@pytest.mark.parametrize(("way", "life"), [(kill_on_purpose, 0), (kill, YOUNG_SECONDS)])
def test_those_that_we_kill_or_that_have_lived_for_a_while_come_back_at_once(
    start, clock, way, life
):
    children = start(0)
    children.shares.append(None)
    for _ in range(FREE_DEATHS + 2):
        clock.fill(children)
        assert len(children.living) == 1
        clock.now += life
        way(children)
        exited(children)
