"""What ``dbqueue top`` shows, which line is selected, and what its keys do."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.db.utils import Error

from ..exceptions import first_line
from ..models import Queue, Worker
from ..models.queue import ALL
from ..monitor.failures import FailureGroup, Failures, choice_of
from ..monitor.glance import failures_of
from ..monitor.overview import Overview, QueueOverview, overview
from ..monitor.verdict import Verdict, verdict
from ..monitor.worker_list import ListedWorker, request_stop, running_jobs
from ..operate.acting import KICK, Progress
from ..operate.pausing import pause, resume
from ..operate.recording import KEYS_NAMED_MAX, record, record_of
from ..worker.served import Served
from .commands._text import in_use

UP, DOWN = {"\x1b[A", "\x1bOA", "k"}, {"\x1b[B", "\x1bOB", "j"}
QUIT, YES = {"q", "\x03", "\x04"}, {"y", "Y"}
REASON = "by hand, in dbqueue top"
HELP = "↑↓ select   p pause or resume a queue   r retry a failure   s stop a worker   q quit"

Item = QueueOverview | FailureGroup | ListedWorker


@dataclass(frozen=True)
class Line:
    """Something that can be selected; ``key`` is what it is known by in the next look, too."""

    key: tuple[str, ...]
    item: Item


@dataclass(frozen=True)
class Question:
    """What a key is about to do, and does once somebody says yes."""

    text: str
    do: Callable[[], str]


class Top:
    """``user`` is the key of who sits there, None where that is not known."""

    def __init__(self, tables: Sequence[Served], user: Any) -> None:
        self.tables, self.user = list(tables), user
        self.found, self.failed = Overview(), Failures([])
        self.running: list[tuple[str, str, float | None]] = []
        self.said, self.problem = "", ""
        self.question: Question | None = None
        self.has_ended = self.wants_look = False
        self.selected: tuple[str, ...] | None = None

    def look(self) -> None:
        """What cannot be asked is told; what was seen before stays on the screen."""
        self.wants_look = False
        try:
            self.found = overview(list({one.place: one for one in self.tables}.values()))
            self.failed = failures_of(self.tables, self.found)
            self.running = running_on(sorted({one.using for one in self.tables}))
            self.problem = ""
        except (Error, ImproperlyConfigured) as error:
            self.problem = f"It cannot be asked: {first_line(error)}"
            for connection in connections.all(initialized_only=True):
                connection.close_if_unusable_or_obsolete()

    @property
    def verdict(self) -> Verdict:
        return verdict(self.found, self.failed)

    @property
    def queues(self) -> list[Line]:
        wanted = [
            one
            for one in in_use(self.found)
            if any(
                table.place == (one.database, one.table) and table.means(one.queue)
                for table in self.tables
            )
        ]
        return [Line(("queue", one.title, one.queue), one) for one in wanted]

    @property
    def failures(self) -> list[Line]:
        groups = self.failed.groups
        return [Line(("failure", one.served.title, one.fingerprint), one) for one in groups]

    @property
    def workers(self) -> list[Line]:
        return [Line(("worker", one.uuid, one.database), one) for one in self.found.workers]

    @property
    def lines(self) -> list[Line]:
        return [*self.queues, *self.failures, *self.workers]

    @property
    def line(self) -> Line | None:
        """The selected one; the first, where that is gone."""
        lines = self.lines
        return next((one for one in lines if one.key == self.selected), lines[0] if lines else None)

    def press(self, key: str) -> None:
        if self.question is not None:
            self._answer(key)
            return
        self.said = ""
        if key in QUIT:
            self.has_ended = True
        elif key in UP:
            self._step(-1)
        elif key in DOWN:
            self._step(1)
        elif key in ASKED:
            line = self.line
            question = None if line is None else ASKED[key](self, line.item)
            self.question = question
            self.said = "" if question else f"{key}: select {MEANT[key]} first"
        else:
            self.said = HELP

    def _step(self, by: int) -> None:
        keys = [one.key for one in self.lines]
        line = self.line
        if line is not None:
            place = min(max(keys.index(line.key) + by, 0), len(keys) - 1)
            self.selected = keys[place]

    def _answer(self, key: str) -> None:
        question, self.question = self.question, None
        if key not in YES or question is None:
            self.said = "nothing was changed"
            return
        try:
            self.said = question.do()
        except (Error, ValueError) as error:
            self.said = f"It was not done: {first_line(error)}"
        self.wants_look = True

    def served(self, one: QueueOverview) -> Served:
        found = next(table for table in self.tables if table.place == (one.database, one.table))
        return replace(found, queue=one.queue)


def running_on(aliases: Sequence[str]) -> list[tuple[str, str, float | None]]:
    """Worker, job and seconds, those that run longest first."""
    workers = [one for alias in aliases for one in Worker.objects.using(alias).all()]
    found = [(str(one), job, ran) for one in workers for job, ran in running_jobs(one)]
    return sorted(found, key=lambda one: -(one[2] or 0.0))


def ask_pause(top: Top, item: Item) -> Question | None:
    if not isinstance(item, QueueOverview):
        return None
    served, name = top.served(item), f"{item.title}, queue {item.queue}"
    act: Callable[[], None]
    if item.paused is None:
        text, act, said = f"Pause {name}?", lambda: pause(served, None, REASON), "Paused"
    elif item.paused.name == ALL:
        wide = replace(served, queue=None)
        text, act, said = f"Resume all of {item.title}?", lambda: resume(wide), "Resumed"
    else:
        text, act, said = f"Resume {name}?", lambda: resume(served), "Resumed"

    def do() -> str:
        act()
        if top.user is not None:
            record_of(top.user, Queue, name, f"{said} {name}; dbqueue top; filters: none")
        return f"{said} {name}"

    return Question(text, do)


def ask_retry(top: Top, item: Item) -> Question | None:
    if not isinstance(item, FailureGroup) or not item.here.buried:
        return None
    until = top.failed.shown_at[item.served.using]

    def do() -> str:
        progress = Progress(KICK, limit=item.here.buried, keeps=KEYS_NAMED_MAX)
        for keyset in choice_of(item.fingerprint, until).keysets(item.served, KICK.sources):
            progress.do(keyset)
        said = f"{KICK.told}: {progress}"
        if top.user is not None:
            more = f"{said}; failure {item.fingerprint}; dbqueue top"
            rows, number = progress.first, progress.taken
            record(top.user, item.served.model, rows, more, number=number)
        return said

    return Question(f"Retry {item.here.buried:,} failed jobs of {item.served.title}?", do)


def ask_stop(top: Top, item: Item) -> Question | None:
    if not isinstance(item, ListedWorker) or not item.lives:
        return None

    def do() -> str:
        [asked] = request_stop(item.uuid, item.database)
        if top.user is not None:
            said = f"Asked {asked.name} to stop; dbqueue top; filters: none"
            record_of(top.user, Worker, asked.name, said, key=asked.uuid)
        return f"{asked.name} was asked to stop"

    return Question(f"Ask {item.name} to stop, once what it runs is finished?", do)


ASKED = {"p": ask_pause, "r": ask_retry, "s": ask_stop}
MEANT = {"p": "a queue", "r": "a failure with failed jobs", "s": "a worker that lives"}
