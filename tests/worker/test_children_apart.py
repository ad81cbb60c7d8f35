"""What children of one supervisor share with each other: neither claims nor pipes nor a pause."""

import itertools
import os
from pathlib import Path

import pytest

from django_dbqueue.worker.children import Children
from tests.kit.forked_children import end, fill, live
from tests.kit.processes import has_ended
from tests.kit.waiting import wait_until

pytestmark = [
    pytest.mark.usefixtures("db_rows"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]


@pytest.fixture
def start():
    """Children that are gone afterwards."""
    made = []

    def start(processes, paused=False, **given):
        children = Children([None] * processes, 1, "a" * 32, live, **given)
        made.append(children)
        children.pause(paused)
        fill(children)
        return children

    yield start
    for children in made:
        end(children)


def test_no_childs_claims_are_taken_for_those_of_another(start):
    prefixes = [child.owner_prefix for child in start(11).living.values()]
    mixed_up = [
        (one, other)
        for one, other in itertools.permutations(prefixes, 2)
        if f"{other}1".startswith(one)
    ]
    assert mixed_up == []


def test_a_child_that_comes_during_a_pause_claims_nothing_either(start):
    children = start(2, paused=True)
    assert all(child.shared.paused for child in children.living.values())
    children.pause(False)
    assert not any(child.shared.paused for child in children.living.values())


@pytest.mark.parametrize("apart", [("here", "there"), ()])
def test_children_of_a_database_come_once_that_one_has_begun(start, apart):
    begun = {"here"}
    given = {"aliases": ("here", "there"), "apart": apart, "has_begun": begun.__contains__}
    children = start(4, **given)
    both, here = [("here", "there")] * 4, [("here",)] * 2
    assert served(children) == (here if apart else [])
    begun.add("there")
    fill(children)
    assert served(children) == ([*here, ("there",), ("there",)] if apart else both)


def served(children):
    return [tuple(child.shared.aliases) for child in children.living.values()]


def test_a_child_whose_supervisor_is_gone_leaves_though_a_younger_one_does_not(start):
    """It notices by its pipe, of which no other child may hold the end."""
    elder, younger = start(2).living.values()
    with Path(os.devnull).open("wb") as nothing:
        os.dup2(nothing.fileno(), elder.control)
    wait_until(lambda: has_ended(elder.pid))
    assert not has_ended(younger.pid)
