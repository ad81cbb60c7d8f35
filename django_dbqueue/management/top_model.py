"""What ``dbqueue top`` shows, which line is selected, and what its keys do."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db.utils import Error

from ..exceptions import first_line
from ..models import Queue, Worker
from ..models.queue import ALL
from ..monitor.alerts import RESUME
from ..monitor.failures import FailureGroup, Failures, choice_of
from ..monitor.overview import Overview, QueueOverview
from ..monitor.running import Slot, slots
from ..monitor.verdict import Verdict, verdict
from ..monitor.worker_list import ListedWorker, request_stop
from ..operate.acting import KICK, Progress
from ..operate.pausing import pause, resume, still_paused
from ..operate.recording import KEYS_NAMED_MAX, record, record_of
from ..worker.served import Served
from .commands._text import in_use
from .looking import close_broken, look_at

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
        self.said, self.problem = "", ""
        self.question: Question | None = None
        self.has_ended = self.wants_look = False
        self.selected: tuple[str, ...] | None = None

    def look(self) -> None:
        """What cannot be asked is told; what was seen before stays on the screen."""
        self.wants_look = False
        try:
            self.found, self.failed = look_at(self.tables)
            self.problem = ""
        except (Error, ImproperlyConfigured) as error:
            self.problem = f"It cannot be asked: {first_line(error)}"

    @property
    def verdict(self) -> Verdict:
        return verdict(self.found, self.failed)

    @property
    def queues(self) -> list[Line]:
        return [Line(("queue", one.title, one.queue), one) for one in in_use(self.found)]

    @property
    def failures(self) -> list[Line]:
        groups = self.failed.groups
        return [
            Line(("failure", one.served.title, one.served.queue or ALL, one.fingerprint), one)
            for one in groups
        ]

    @property
    def workers(self) -> list[Line]:
        return [Line(("worker", one.uuid, one.database), one) for one in self.found.workers]

    @property
    def running(self) -> list[Slot]:
        """Those that run longest first."""
        return sorted(slots(self.found.workers), key=lambda one: -(one.seconds or 0.0))

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
            asked = "" if line is None else ASKED[key](self, line.item)
            if isinstance(asked, Question):
                self.question = asked
            else:
                self.said = asked or f"{key}: select {MEANT[key]} first"
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

    def note(self, write: Callable[[Any], Any]) -> str:
        """Into the admin's log, where it is known whose action it was; gives back why it is not
        there where that fails, since the action is done."""
        if self.user is None:
            return ""
        try:
            write(self.user)
        except Error as error:
            return f", but it is not in the log: {first_line(error)}"
        return ""

    def served(self, one: QueueOverview) -> Served:
        found = next(table for table in self.tables if table.place == (one.database, one.table))
        return replace(found, queue=one.queue)


def ask_pause(top: Top, item: Item) -> Question | str:
    """What is resumed is what is paused: the queue, the one that it is a lane of, or all of the
    table."""
    if not isinstance(item, QueueOverview):
        return ""
    paused = item.paused
    if paused is not None and paused.job_table == ALL:
        return f"Everything on {item.database} is paused. {RESUME[paused.scope]}"
    name = item.queue if paused is None else paused.name
    served = replace(top.served(item), queue=None if name == ALL else name)
    what = f"all of {item.title}" if name == ALL else f"{item.title}, queue {name}"

    def do() -> str:
        more = ""
        if paused is None:
            pause(served, None, REASON)
        else:
            resume(served)
            scope = still_paused(served)
            more = f", but {scope} is still paused" if scope else ""
        said = f"{'Resumed' if paused else 'Paused'} {what}"
        text, using = f"{said}; dbqueue top", served.using
        return said + more + top.note(lambda user: record_of(user, Queue, what, text, using=using))

    return Question(f"{'Resume' if paused else 'Pause'} {what}?", do)


def ask_retry(top: Top, item: Item) -> Question | str:
    if not isinstance(item, FailureGroup) or not item.here.buried:
        return ""
    until = top.failed.shown_at[item.served.using]

    def do() -> str:
        progress = Progress(KICK, limit=item.here.buried, keeps=KEYS_NAMED_MAX)
        more = ""
        try:
            for keyset in choice_of(item.fingerprint, until).keysets(item.served, KICK.sources):
                progress.do(keyset)
        except Error as error:
            if not progress.taken:
                raise
            more = f"; the rest was not done: {first_line(error)}"
            close_broken()  # so that there is one to record it by
        finally:
            # What was done is recorded, even if the rest failed.
            said = f"{KICK.told}: {progress}"
            text = f"{said}; failure {item.fingerprint}; dbqueue top"
            rows, number = progress.first, progress.taken
            model = item.served.model
            more += top.note(lambda user: record(user, model, rows, text, number=number))
        return said + more

    return Question(f"Retry {item.here.buried:,} failed jobs of {item.served.title}?", do)


def ask_stop(top: Top, item: Item) -> Question | str:
    if not isinstance(item, ListedWorker) or not item.lives:
        return ""

    def do() -> str:
        [asked] = request_stop(item.uuid, item.database)
        text, key, using = f"Asked {asked.name} to stop; dbqueue top", asked.uuid, item.database
        more = top.note(
            lambda user: record_of(user, Worker, asked.name, text, key=key, using=using)
        )
        return f"{asked.name} was asked to stop{more}"

    return Question(f"Ask {item.name} to stop, once what it runs is finished?", do)


# Each gives the question, or why there is none; '' where another line has to be selected.
ASKED = {"p": ask_pause, "r": ask_retry, "s": ask_stop}
MEANT = {"p": "a queue", "r": "a failure with failed jobs", "s": "a worker that lives"}
