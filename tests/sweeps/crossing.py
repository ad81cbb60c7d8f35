"""Two actors, one of them stopped in the middle: whatever comes out must come out, too, when they
act one after the other."""

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import count, product

from django.db import connection

from django_dbqueue.states import Status
from tests.sweeps.actors import ACTORS
from tests.sweeps.steps import Lane, Stop
from tests.sweeps.worlds import HOMES, TABLES, World, empty_controls

PATIENCE = 0.1  # seconds after which the second waits for a lock of the first, or gave up
WAITED_TOO_LONG = ("lock wait timeout", "lock timeout", "database is locked")
ORDER = ("one", "other")
# What a person is told whose jobs have all moved on.
SKIPPED = 0
# Those to whom it makes a difference that a table has no archive and frees its keys at the claim.
DIFFERENT = {"claim", "enqueue", "cancel", "archive", "prune"}
# Which rows the actors mean: both the same one, with a neighbour, or both of them.
SCOPES = {"one": ("first",), "two": ("first", "second")}


@dataclass(frozen=True)
class Pair:
    """``one`` is stopped, and ``other`` acts meanwhile."""

    one: str
    other: str
    table: str
    home: str
    scope: str

    @property
    def is_close(self):
        """Whether both find something to do."""
        return self.home in ACTORS[self.one].homes and self.home in ACTORS[self.other].homes

    def world(self):
        return World(TABLES[self.table], self.home, SCOPES[self.scope])


@dataclass
class Outcome:
    """The rows by name, and what the two were told."""

    rows: dict
    answers: tuple

    @property
    def problems(self):
        return [answer for answer in self.answers if isinstance(answer, BaseException)]


def all_pairs():
    """Every ordered pair in every home where one of them finds something to do."""
    stopped = [name for name, actor in ACTORS.items() if actor.stops]
    for one, other in product(stopped, ACTORS):
        homes = {*ACTORS[one].homes, *ACTORS[other].homes}
        tables = TABLES if DIFFERENT & {one, other} else ["kept"]
        for home, table, scope in product(HOMES, tables, SCOPES):
            exists = home != "archived" or table == "kept"
            if home in homes and exists:
                yield Pair(one, other, table, home, scope)


class Crossings:
    """Runs pairs, and counts them and their schedules."""

    def __init__(self):
        self.lanes = Lane(), Lane()
        self.pairs = 0
        self.schedules = 0
        self.waits = 0

    def end(self):
        for lane in self.lanes:
            lane.end()

    def sweep(self, pair):
        """What no serial order explains, by boundary."""
        self.pairs += 1
        world, wrong = pair.world(), []
        serial, late = self._references(pair, world)
        for at in count():
            outcome, waited = self._crossed(pair, world, at)
            if outcome and any(map(has_waited_too_long, outcome.problems)):
                # A busy machine stood still; who locks the other for good does so again.
                outcome, waited = self._crossed(pair, world, at)
            if outcome is None:
                break
            self.schedules += 1
            explanations = serial + late if waited else serial
            if not explained(outcome, explanations):
                wrong.append(f"{pair}, stopped at {at}: {outcome}, not one of {explanations}")
        return wrong

    def _references(self, pair, world):
        """What comes out of both orders, and where a person's verb skips what has moved on since
        its look. That of the other may do so only if it had to wait between look and write."""
        serial = [self._serial(pair, world, order) for order in (ORDER, ORDER[::-1])]
        late = []
        for skipped, acts, found in (("one", "other", serial), ("other", "one", late)):
            if ACTORS[getattr(pair, skipped)].by_hand:
                alone = self._serial(pair, world, (acts,))
                found.extend([alone] if world.have_moved(alone.rows) else [])
        problems = [outcome for outcome in serial + late if outcome.problems]
        assert not problems, f"{pair}, one after the other: {problems}"
        if pair.one == "claim" and connection.vendor == "mysql":
            serial.append(self._read_late(serial[0]))
        return serial, late

    def _read_late(self, outcome):
        """There a claim reads its rows by a statement of its own. What was taken from it before
        that it never hears of, and does not run."""
        rows, (claimed, answer) = outcome.rows, outcome.answers
        kept = ("live", Status.CLAIMED, "one.1")
        left = {name: word for name, word in claimed.items() if rows.get(name, ())[:3] == kept}
        return Outcome(rows, (left, answer))

    def _set_up(self, pair, world):
        world.set_up()
        if "pause" in (pair.one, pair.other):
            empty_controls()

    def _begin(self, pair, world, which, stop=None):
        lane = self.lanes[which == "other"]
        actor = ACTORS[getattr(pair, which)]
        return lane.begin(partial(actor.act, world, which), actor.waits, stop)

    def _serial(self, pair, world, order):
        self._set_up(pair, world)
        answers = {which: self._begin(pair, world, which).result() for which in order}
        return Outcome(world.read(), tuple(answers.get(which, SKIPPED) for which in ORDER))

    def _crossed(self, pair, world, at):
        """The outcome, None where there is no such boundary, and whether one held locks there."""
        self._set_up(pair, world)
        stop = Stop(at)
        one = self._begin(pair, world, "one", stop)
        assert stop.reached.wait(60)
        if one.is_over.is_set():
            return None, False
        other = self._begin(pair, world, "other")
        if not other.is_over.wait(PATIENCE if stop.holds else 60):
            self.waits += 1
        stop.go_on.set()
        answers = one.result(), other.result()
        if stop.holds and ACTORS[pair.other].passes:
            again = self._begin(pair, world, "other").result()
            answers = answers[0], both(answers[1], again)
        return Outcome(world.read(), answers), stop.holds


def has_waited_too_long(problem):
    """For a lock, not in a deadlock."""
    return any(word in str(problem).lower() for word in WAITED_TOO_LONG)


def both(before, after):
    """The answers of two passes as one."""
    return before | after if isinstance(before, dict) else before + after


def explained(outcome, explanations):
    """Whether each row, with what the two were told of it, is as after one of the serial orders.

    Row by row, for a reaper writes row by row; a count is made up of equal parts of both.
    """
    return any(
        outcome.rows == _mixed(by_first.rows, by_rest.rows)
        and outcome.answers == tuple(map(_mixed, by_first.answers, by_rest.answers))
        for by_first, by_rest in product(explanations, repeat=2)
    )


def _mixed(by_first, by_rest):
    if by_first == by_rest:
        return by_first
    if isinstance(by_first, dict):
        of_first = {name: value for name, value in by_first.items() if name == "first"}
        return of_first | {name: value for name, value in by_rest.items() if name != "first"}
    if isinstance(by_first, int) and isinstance(by_rest, int):
        return Fraction(by_first + by_rest, 2)
    return "only one of both orders"
