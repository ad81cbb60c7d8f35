"""What must hold of every row at every moment, and of every job once all is done."""

from collections import Counter
from collections.abc import Set
from dataclasses import dataclass, field
from pathlib import Path

from django_dbqueue.models import Queue, Worker
from django_dbqueue.states import Status
from tests.queueapp.models import ArchivedChore, Chore, Errand
from tests.sweeps.stage import ERRANDS, LOOPS, MAINTENANCE

# Tables whose jobs' effects number exactly one, whatever happens: add theirs to the stage.
EXACTLY_ONCE = ()
CUT_OFF = {"TimeToRunExceeded"}
DATABASE_ERRORS = {"OperationalError", "InterfaceError", "InternalError", "ProgrammingError"}
GROUPS = {
    "enqueue_in_transaction": ("both-1", "both-2"),
    "enqueue_many": ("many-1", "many-2", "many-3"),
}


@dataclass
class Expected:
    """How a job ends where nothing goes wrong."""

    status: int = Status.DONE
    runs: int = 1
    errors: list = field(default_factory=list)


EXPECTED = dict.fromkeys(MAINTENANCE, Expected()) | {
    "fails": Expected(runs=2, errors=["RuntimeError"]),
    "buries": Expected(Status.BURIED, errors=["Bury"]),
    "releases": Expected(runs=2),
    "expired": Expected(runs=0),
    "overdue": Expected(errors=["TimeToRunExceeded"]),
    **dict.fromkeys(LOOPS[:5], Expected(runs=0)),
    "old": Expected(runs=0),
    "finished": Expected(runs=0),
    "cancelled": Expected(Status.READY, runs=0),
}


def confirmed_steps(path):
    return set(Path(path).read_text().split()) if Path(path).exists() else set()


def effects(log):
    return Counter(Path(log).read_text().split())


@dataclass
class Scene:
    """All that the database and the log hold at one moment."""

    live: list
    archived: list
    errands: list
    effects: Counter

    @classmethod
    def now(cls, log):
        live, archived, errands = (
            list(model.objects.all()) for model in (Chore, ArchivedChore, Errand)
        )
        return cls(live, archived, errands, effects(log))

    @property
    def rows(self):
        return [*self.live, *self.archived]

    def named(self, name):
        return [row for row in self.rows if row.name == name]

    def claimed(self):
        return {row.name for row in [*self.live, *self.errands] if row.status == Status.CLAIMED}

    def finished(self):
        return {row.name for row in self.rows if row.status == Status.DONE}


def check_any_time(scene):
    """Whatever has just happened."""
    both = {row.pk for row in scene.live} & {row.pk for row in scene.archived}
    assert not both, f"{both} are in the table and in the archive"
    for row in [*scene.rows, *scene.errands]:
        check_row(row)
    keys = [(row.queue, row.dedup_key) for row in scene.live if row.dedup_key is not None]
    assert len(keys) == len(set(keys)), f"a dedup_key twice: {keys}"
    assert not scene.named("never"), "enqueued though its transaction was rolled back"


def check_row(row):
    what = (row.name, row.status, row.owner, row.attempts, row.crashes, row.errors)
    assert row.status in set(Status), what
    if row.status == Status.CLAIMED:
        assert row.owner, what
        assert row.dequeued_time, what
    elif row.status != Status.DONE:
        assert row.owner is None, what
        assert row.dequeued_time is None, what
    assert (row.retry_at is not None) or row.status in {Status.READY, Status.BURIED}, what
    if row.status in {Status.READY, Status.BURIED}:
        assert row.retry_at is None, what
    if row.status in {Status.DONE, Status.BURIED}:
        assert row.finished_at, what
        assert row.dedup_key is None, what


@dataclass
class Judge:
    """Judges the end by what the fault may have brought about, and nothing else."""

    confirmed: Set
    # Jobs that a process had in hand when it was killed.
    cut_off: Set = frozenset()
    # A producer who got no answer may have tried again.
    may_repeat: bool = False
    # Jobs that work on the database themselves, hence meet its errors.
    may_meet_error: Set = frozenset()

    def check(self, scene):
        check_any_time(scene)
        for name, expected in EXPECTED.items():
            self.check_job(scene, name, expected)
        for step, names in GROUPS.items():
            self.check_group(scene, step, names)
        self.check_once(scene)
        for name in ERRANDS:
            self.check_runs(scene, name, int(name not in LOOPS), 0)
        assert not scene.errands, "an errand is left"
        assert not scene.named("ancient"), "pruned, and there again"
        assert not Worker.objects.filter(stopped_at=None).exists(), "a worker's row is left"
        assert Queue.objects.count() <= 1

    def check_job(self, scene, name, expected):
        rows = scene.named(name)
        assert len(rows) == 1, f"{name}: {len(rows)} rows"
        if name == "cancelled" and "cancel" not in self.confirmed and rows[0].status == Status.DONE:
            expected = Expected()
        if name == "buried" and "kick" not in self.confirmed and rows[0].status == Status.BURIED:
            assert not scene.effects[name]
            return
        self.check_end(scene, rows[0], expected)
        in_archive = name in {"old", "cancelled"} and expected is not EXPECTED["plain-1"]
        if expected.status == Status.READY or name == "old":
            assert in_archive == (rows[0] in scene.archived), f"{name} is in the wrong place"

    def check_end(self, scene, row, expected):
        found = [entry["exception"] for entry in row.errors]
        what = (row.name, row.status, row.attempts, row.crashes, found)
        assert row.status == expected.status, what
        extra = Counter(found) - Counter(expected.errors)
        assert not Counter(expected.errors) - Counter(found), what
        assert not set(extra) - self.allowed(row.name), what
        assert extra.total() <= 1, what
        has_ended_well = row.status == Status.DONE and row.name != "expired"
        assert row.attempts == len(found) + has_ended_well, what
        assert row.crashes == 0, what
        assert row.losses == row.name.startswith("orphan-") or row.name in self.cut_off, what
        # Who lost a job to the time that was over runs it once more, who never ran it, too.
        self.check_runs(scene, row.name, expected.runs, extra.total())

    def allowed(self, name):
        """Exceptions that a job may meet besides its own."""
        allowed = DATABASE_ERRORS if name in self.may_meet_error else set()
        return allowed | (CUT_OFF if name in self.cut_off else set())

    def check_runs(self, scene, name, expected, more):
        runs = scene.effects[name]
        most = expected + max(more, name in self.cut_off)
        assert expected <= runs <= most, f"{name} ran {runs} times, not {expected} to {most}"

    def check_group(self, scene, step, names):
        counts = {len(scene.named(name)) for name in names}
        assert len(counts) == 1, f"{names}: {counts}"
        [count] = counts
        if step in self.confirmed:
            assert count, f"{names} are lost"
        assert count <= 1 + self.may_repeat, f"{names} were enqueued {count} times"
        for name in names:
            for row in scene.named(name):
                self.check_end(scene, row, Expected(runs=count))

    def check_once(self, scene):
        rows = scene.named("once") + scene.named("again")
        assert len(rows) == 1 or (not rows and "enqueue_once" not in self.confirmed), rows
        for row in rows:
            self.check_end(scene, row, Expected())


def check_nothing_undone(before, after):
    """What was finished as a process was killed stays finished, and does not run again."""
    for name in before.finished():
        assert name not in after.claimed()
        assert after.effects[name] == before.effects[name], f"{name} was done, and ran again"
