"""What ``dbqueue top`` shows, which line is selected, and what its keys do."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db.utils import Error
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ..exceptions import first_line
from ..lifecycle.operator import Changed
from ..models import Queue, Worker
from ..models.queue import ALL
from ..monitor.alerts import RESUME
from ..monitor.failures import FailureGroup, Failures, choice_of
from ..monitor.overview import Overview, QueueOverview
from ..monitor.running import Slot, slots
from ..monitor.verdict import Verdict, verdict
from ..monitor.worker_list import ListedWorker
from ..monitor.worker_requests import request_stop
from ..operate.acting import KICK, Progress
from ..operate.pausing import pause, resume, still_paused
from ..operate.recording import KEYS_NAMED_MAX, record, record_of
from ..texts.wording import changed, number
from ..worker.served import Served
from .commands._text import in_use
from .looking import close_broken, look_at

UP, DOWN = {"\x1b[A", "\x1bOA", "k"}, {"\x1b[B", "\x1bOB", "j"}
QUIT, YES = {"q", "\x03", "\x04"}, {"y", "Y"}
REASON = "by hand, in dbqueue top"
HELP = gettext_lazy(
    "↑↓ select   p pause or resume a queue   r retry a failure   s stop a worker   q quit"
)

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
            self.problem = _("It cannot be asked: %(why)s") % {"why": first_line(error)}

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
                self.said = asked or str(MEANT[key])
        else:
            self.said = str(HELP)

    def _step(self, by: int) -> None:
        keys = [one.key for one in self.lines]
        line = self.line
        if line is not None:
            place = min(max(keys.index(line.key) + by, 0), len(keys) - 1)
            self.selected = keys[place]

    def _answer(self, key: str) -> None:
        question, self.question = self.question, None
        if key not in YES or question is None:
            self.said = _("nothing was changed")
            return
        try:
            self.said = question.do()
        except (Error, ValueError) as error:
            self.said = _("It was not done: %(why)s") % {"why": first_line(error)}
        self.wants_look = True

    def note(self, write: Callable[[Any], Any]) -> str:
        """Into the admin's log, where it is known whose action it was; gives back why it is not
        there where that fails, since the action is done."""
        if self.user is None:
            return ""
        try:
            write(self.user)
        except Error as error:
            return first_line(error)
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
        text = _("Everything on %(database)s is paused. %(advice)s")
        return text % {"database": item.database, "advice": RESUME[paused.scope]}
    name = item.queue if paused is None else paused.name
    served = replace(top.served(item), queue=None if name == ALL else name)
    # As the log has it, in English.
    what = f"all of {item.title}" if name == ALL else f"{item.title}, queue {name}"
    shown = _("%(table)s, queue %(queue)s") % {"table": item.title, "queue": name}
    if name == ALL:
        shown = _("all of %(table)s") % {"table": item.title}

    def do() -> str:
        if paused is None:
            pause(served, None, REASON)
            said = _("Paused %(what)s") % {"what": shown}
        else:
            resume(served)
            said = RESUMED[still_paused(served)] % {"what": shown}
        text = f"{'Resumed' if paused else 'Paused'} {what}; dbqueue top"
        using = served.using
        unnoted = top.note(lambda user: record_of(user, Queue, what, text, using=using))
        return unless(unnoted, said)

    question = _("Resume %(what)s?") if paused else _("Pause %(what)s?")
    return Question(question % {"what": shown}, do)


def unless(why_not: str, said: str) -> str:
    """What was done, and why it is not in the log, if it is not."""
    if not why_not:
        return said
    return _("%(done)s, but it is not in the log: %(why)s") % {"done": said, "why": why_not}


def ask_retry(top: Top, item: Item) -> Question | str:
    if not isinstance(item, FailureGroup) or not item.here.buried:
        return ""
    until = top.failed.shown_at[item.served.using]

    def do() -> str:
        progress = Progress(KICK, limit=item.here.buried, keeps=KEYS_NAMED_MAX)
        problem = unnoted = ""
        try:
            for keyset in choice_of(item.fingerprint, until).keysets(item.served, KICK.sources):
                progress.do(keyset)
        except Error as error:
            if not progress.taken:
                raise
            problem = first_line(error)
            close_broken()  # so that there is one to record it by
        finally:
            # What was done is recorded, even if the rest failed.
            text = f"{KICK.told}: {progress}; failure {item.fingerprint}; dbqueue top"
            rows, taken = progress.first, progress.taken
            model = item.served.model
            unnoted = top.note(lambda user: record(user, model, rows, text, number=taken))
        said = _("Retry: %(result)s") % {"result": changed(progress.result or Changed(), str)}
        if problem:
            said = _("%(done)s; the rest was not done: %(why)s") % {"done": said, "why": problem}
        return unless(unnoted, said)

    question = ngettext(
        "Retry %(number)s failed jobs of %(table)s?",
        "Retry %(number)s failed jobs of %(table)s?",
        item.here.buried,
    )
    values = {"number": number(item.here.buried), "table": item.served.title}
    return Question(question % values, do)


def ask_stop(top: Top, item: Item) -> Question | str:
    if not isinstance(item, ListedWorker) or not item.lives:
        return ""

    def do() -> str:
        [asked] = request_stop(item.uuid, item.database)
        text, key, using = f"Asked {asked.name} to stop; dbqueue top", asked.uuid, item.database
        unnoted = top.note(
            lambda user: record_of(user, Worker, asked.name, text, key=key, using=using)
        )
        return unless(unnoted, _("%(name)s was asked to stop") % {"name": asked.name})

    question = _("Ask %(name)s to stop, once what it runs is finished?")
    return Question(question % {"name": item.name}, do)


# Each gives the question, or why there is none; '' where another line has to be selected.
ASKED = {"p": ask_pause, "r": ask_retry, "s": ask_stop}
MEANT = {
    "p": gettext_lazy("p: select a queue first"),
    "r": gettext_lazy("r: select a failure with failed jobs first"),
    "s": gettext_lazy("s: select a worker that lives first"),
}
# By what is still paused.
RESUMED = {
    "": gettext_lazy("Resumed %(what)s"),
    "its queue": gettext_lazy("Resumed %(what)s, but its queue is still paused"),
    "its whole table": gettext_lazy("Resumed %(what)s, but its whole table is still paused"),
    "everything": gettext_lazy("Resumed %(what)s, but everything is still paused"),
}
