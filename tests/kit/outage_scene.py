"""One scene that every kind of outage is played on, and what must hold after it."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db.models import QuerySet

from django_dbqueue.fields import DbNow
from django_dbqueue.models import Worker
from tests.kit.processes import Process, lines, running
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note

ALIAS = "private"  # of the database that has the outage
RESUME_WITHIN = 30.0  # seconds; 5 are promised, which `make prove` prints: a busy machine is slow
FAST = {"DBQUEUE_BEAT_INTERVAL": "0.3", "DBQUEUE_WORKER_TIMEOUT": "1.5"}
# A busy machine has eight processes stand still for longer than that.
PATIENT = {"DBQUEUE_BEAT_INTERVAL": "0.4", "DBQUEUE_WORKER_TIMEOUT": "3"}
WAITING = 40  # short jobs in each queue


def notes() -> Any:
    return Note.objects.using(ALIAS)


def starts(log: str) -> Counter[str]:
    """How often each job was started, by its key."""
    return Counter(line.split()[0] for line in lines(log))


def resumed(log: str) -> float:
    """Wait until a job runs that nobody had claimed; how many seconds that took."""
    begin = time.monotonic()
    ready = {str(pk) for pk in notes().ready().values_list("pk", flat=True)}
    assert ready, "the test has too few jobs"
    wait_until(lambda: ready & starts(log).keys(), seconds=RESUME_WITHIN)
    return time.monotonic() - begin


def settled(log: str) -> int:
    """Wait until a second passes without a start; how many there were."""
    seen = [-1]

    def nothing_new() -> bool:
        seen.append(len(lines(log)))
        return seen[-1] == seen[-2]

    wait_until(nothing_new, every=1.0)
    return seen[-1]


def at_work(process: Process) -> None:
    assert process.popen.poll() is None, process.stderr


def check_each_ran_once(log: str, *processes: Process) -> None:
    """All are done, each was started once, nothing was charged to any, no process has ended."""

    def over() -> bool:
        for process in processes:
            at_work(process)
        return not notes().exclude(status=2).exists()

    try:
        wait_until(over, seconds=60)
    except AssertionError:
        for process in processes:
            print(process.stderr)
        raise
    assert not (twice := {key: n for key, n in starts(log).items() if n > 1}), twice
    assert len(starts(log)) == notes().count()
    charged = notes().exclude(attempts=1, crashes=0)
    assert not charged.exists(), list(charged.values())


@dataclass
class Scene:
    """Two workers with jobs in hand, a third one whose job holds the GIL, jobs that wait, and a
    reaper who might take them all for dead."""

    private: Any
    log: str
    seconds: float  # of the outage
    timing: dict[str, str]
    workers: list[Process] = field(default_factory=list)

    def in_hand(self, queue: str) -> list[Note]:
        """One job outlasts the outage, one ends in it, and one in it ends after its claim did."""
        lengths = [self.seconds + 2, self.seconds / 2, self.seconds / 2]
        return [Note(queue=queue, seconds=s + 1, log=self.log, priority=1) for s in lengths]

    def begin(self, stack: ExitStack) -> None:
        for queue in ("one", "two", "gil"):
            table = f"queueapp.Note:{queue}"
            self._start(stack, "runworker", table, "--threads", "3", "--batch-size", "1")
        self._start(stack, "runreaper")
        wait_until(lambda: Worker.objects.using(ALIAS).count() == len(self.workers))
        for queue in ("one", "two"):
            notes().bulk_create(self.in_hand(queue))
        notes().create(queue="gil", action="hold_gil", text=str(self.seconds), log=self.log)
        wait_until(lambda: len(lines(self.log)) == 7)
        self._end_claims_soon()
        notes().bulk_create(
            Note(queue=queue, seconds=0.05, log=self.log)
            for queue in ("one", "two")
            for _ in range(WAITING)
        )

    def _start(self, stack: ExitStack, *args: str) -> None:
        process = running(self.private.database_url, *args, **self.timing)
        self.workers.append(stack.enter_context(process))

    def _end_claims_soon(self) -> None:
        """Without the usual 20 s of allowance a claim ends in a short outage, too."""
        for queue in ("one", "two"):
            last = notes().filter(queue=queue, priority=1).latest("pk")
            soon = DbNow(plus=self.seconds / 2)
            QuerySet(Note, using=ALIAS).filter(pk=last.pk).update(retry_at=soon)

    def tell(self, kind: Any, *_: Any) -> None:
        """What the workers wrote, where a test fails."""
        for process in self.workers if kind else ():
            print(process.stderr)

    def check(self) -> None:
        """Every job was started once and is done, and no worker was taken for dead."""
        check_each_ran_once(self.log, *self.workers)
        for process in self.workers:
            for complaint in ("taken for dead", "is gone", "ClaimLost", "Traceback"):
                assert complaint not in process.stderr, process.stderr


@contextmanager
def scene(private: Any, log: str, full: bool) -> Iterator[Scene]:
    """The scene is set; leave the block when the outage is over."""
    made = Scene(private, log, 30 if full else 6, {} if full else PATIENT)
    with ExitStack() as stack:
        stack.push(made.tell)
        made.begin(stack)
        yield made
        print(f"work resumed after {resumed(log):.1f} s")
        made.check()
