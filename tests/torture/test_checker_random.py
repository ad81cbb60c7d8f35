"""Random good histories pass; each of them, changed in one place, is caught."""

import os
import random

import pytest
from hypothesis import assume, given, seed, settings
from hypothesis import strategies as st

from tests.kit.examples import examples as drawn
from tests.kit.histories import NS, row
from tests.kit.simulated_histories import FAULTS, Simulation

CHANGES = {}


def change(*expected, faults=FAULTS):
    def keep(make):
        CHANGES[make.__name__] = expected, faults, make
        return make

    return keep


def one_of(rng, found):
    """One of them; without any, another history is tried."""
    found = [*found]
    assume(found)
    return rng.choice(found)


def enqueued(tale):
    return {e["key"] for e in tale.events if e["op"] == "enqueue" and e["type"] == "ok"}


def of(tale, op):
    return [event for event in tale.events if event["op"] == op]


def done_row(rng, tale):
    return one_of(rng, (one for one in tale.rows.values() if one["status"] == "done"))


def plain_done(tale):
    """The finished jobs whose effect is no row."""
    once = {e["mark"] for e in of(tale, "enqueue") if e.get("exactly_once")}
    return [r for r in tale.rows.values() if r["status"] == "done" and r["mark"] not in once]


@change("I1")
def a_row_is_gone(rng, tale):
    tale.rows.pop(one_of(rng, tale.rows.keys() & enqueued(tale)))


@change("I2")
def a_row_comes_from_nowhere(rng, tale):
    tale.rows["new"] = row("new", status="buried", finished=True)


@change("I2")
def an_enqueue_is_forgotten(rng, tale):
    mark = done_row(rng, tale)["mark"]
    tale.events = [e for e in tale.events if e["op"] != "enqueue" or e["mark"] != mark]


@change("I5")
def attempts_are_made_up(rng, tale):
    done_row(rng, tale)["attempts"] += 50


@change("crashes")
def crashes_are_made_up(rng, tale):
    done_row(rng, tale)["crashes"] += 50


@change("I6")
def an_effect_is_gone(rng, tale):
    one = one_of(rng, plain_done(tale))
    tale.events = [e for e in tale.events if e["op"] != "effect" or e["owner"] != one["owner"]]


@change("I6")
def a_transaction_is_doubled(rng, tale):
    tale.effects.append(one_of(rng, tale.effects))


@change("I7")
def an_effect_is_doubled(rng, tale):
    tale.events.append(one_of(rng, of(tale, "effect")))


@change("I17", "I7")
def a_finished_job_runs_again(rng, tale):
    """One whose end was noted: else the kill that took the note excuses the start."""
    noted = {e["owner"] for e in of(tale, "completed")}
    one = one_of(rng, (row for row in plain_done(tale) if row["owner"] in noted))
    tale.wait(60)
    fields = {"key": one["key"], "mark": one["mark"], "owner": "worker-5.99"}
    tale.note("start", "invoke", 58, **fields, attempt=one["attempts"], crashes=0)
    tale.note("effect", "ok", 58, **fields)


@change("I3", "I17", "I7", faults=())
def a_second_claim_starts_right_after_the_first(rng, tale):
    start = one_of(rng, of(tale, "start"))
    tale.events.append(start | {"owner": "worker-5.99", "pid": 58, "t": start["t"] + 1})


@change("I4", "I17", "done", faults=("stop",))
def a_zombie_is_not_refused(rng, tale):
    event = one_of(rng, of(tale, "lost"))
    event |= {"op": "completed", "type": "ok"}


@change("I9")
def a_delay_was_longer(rng, tale):
    kicked = {e["key"] for e in of(tale, "kick")}
    start = one_of(rng, (e for e in of(tale, "start") if e["key"] not in kicked))
    for event in of(tale, "enqueue"):
        if event["mark"] == start["mark"] and event["type"] == "invoke":
            event["delay"] = 10_000


@change("I10", "done")
def a_job_is_not_finished(rng, tale):
    done_row(rng, tale)["status"] = "ready"


@change("I11")
def a_claim_is_left(rng, tale):
    done_row(rng, tale).update(status="claimed", retry_at_past_seconds=100.0, finished=False)


@change("I12")
def a_row_is_archived_and_not_deleted(rng, tale):
    tale.rows["copy"] = done_row(rng, tale) | {"place": "archive"}


@change("I13")
def keys_are_doubled(rng, tale):
    for one in tale.rows.values():
        one["dedup_key"] = "same"
    assume(len(tale.rows) > 1)


@change("I16", faults=("kill", "group"))
def the_dead_walk(rng, tale):
    kill = one_of(rng, of(tale, "kill"))
    dead = {"pid": kill["pids"][0], "who": "worker-1", "op": "heal", "type": "info"}
    tale.events.append(dead | {"t": kill["t"] + 2 * NS})


@change("buried", "done")
def a_job_is_parked(rng, tale):
    done_row(rng, tale).update(status="buried", attempts=1, crashes=0, errors=[])


@change("errors")
def errors_are_wiped(rng, tale):
    failed = {e["key"] for e in tale.events if e["op"] == "failed" or e.get("charged")}
    tale.rows[one_of(rng, failed & tale.rows.keys())]["errors"] = []


@change("I3", "I7", "reaped", faults=("kill",))
def a_kill_did_not_happen(rng, tale):
    """Of a run that was cut off, whose job ran again; not because somebody kicked it."""
    ended = {e["owner"] for e in tale.events if e["op"] in {"completed", "failed", "end"}}
    cut = [e for e in of(tale, "start") if e["owner"] not in ended]
    pid = one_of(rng, (e for e in cut if next_move(tale, e) == "start"))["pid"]
    tale.events = [e for e in tale.events if pid not in e.get("pids", ())]


def next_move(tale, start):
    """How the job of this start went on: it was started again, or kicked first."""
    moves = [*of(tale, "start"), *of(tale, "kick")]
    later = [e for e in moves if e["key"] == start["key"] and e["t"] > start["t"]]
    return min(later, key=lambda e: e["t"])["op"] if later else None


@change("whole")
def a_start_is_missing(rng, tale):
    tale.drop(one_of(rng, (e for e in of(tale, "start") if started_and_noted(tale, e))))


def started_and_noted(tale, start):
    return any(e["owner"] == start["owner"] for e in of(tale, "effect"))


@pytest.fixture(scope="module")
def examples(pytestconfig):
    return 2000 if pytestconfig.getoption("--full") else 60


def violations(report):
    return {name: report.verdicts[name].violations for name in report.broken}


SEED = int(os.environ.get("CHECKER_SEED", "1"))


def test_random_good_histories_pass(examples):
    print(f"CHECKER_SEED={SEED}")
    duplicates = 0
    for number in range(examples):
        report = Simulation(random.Random(SEED + number)).tale.report()
        assert violations(report) == {}, f"CHECKER_SEED={SEED + number}"
        duplicates += sum(report.figures.duplicates.values())
    assert duplicates > examples  # they are no quiet ones


@drawn(40)
@given(st.randoms(use_true_random=False))
def test_histories_that_hypothesis_makes_pass(rng):
    report = Simulation(rng, steps=60).tale.report()
    assert violations(report) == {}


@pytest.mark.parametrize("name", CHANGES)
def test_a_good_history_changed_in_one_place_is_caught(name, examples):
    expected, faults, make = CHANGES[name]
    print(f"CHECKER_SEED={SEED}")

    @settings(drawn(examples // 4), derandomize=False)
    @seed(SEED)
    @given(st.integers(0, 2**32))
    def caught(number):
        rng = random.Random(number)
        tale = Simulation(rng, faults=faults).tale
        make(rng, tale)
        assert {*expected} & {*tale.report().broken}

    caught()
