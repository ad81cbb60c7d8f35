"""The rules of beanstalkd over a queue table: what clients want, and what they are answered.

One thread does the work of all clients in turns; a turn is one transaction, however many clients
want something, and is answered once it is committed.
"""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from django.db.utils import Error

from ..dialects import Dialect, ErrorKind
from ..lifecycle.admission import make_rooms
from ..lifecycle.promotion import next_moves, promote
from ..lifecycle.table import Table
from ..worker.session import ReconnectBackoff, Session
from ..worker.wakeup import Wakeup
from . import commands, replies
from .answers import pauses_of
from .apart import write_apart
from .ending import Ending
from .faults import FAULTS, Fence, is_locked, is_to_be_repeated, kind_of
from .inbox import Inbox, News, Wanted
from .joint import Turn
from .one_by_one import OneByOne
from .protocol import JOB_SIZE, JOB_TOO_BIG, Refused
from .reserving import reserve
from .state import Client, State
from .transactions import Answer, Transactions
from .verbs import VERBS

logger = logging.getLogger("django_dbqueue")

# Seconds between looks for what others have put, while somebody waits: it grows up to the longest.
LOOK_SECONDS, LOOK_SECONDS_MAX = 0.01, 0.2
IDLE_SECONDS = 1.0  # while nobody waits
LAST_SECONDS = 5.0  # in which the rest is done of what clients have said, where it is stopped
REFRESH_SECONDS = 0.2  # between looks for delayed jobs that are due, and for pauses
RESERVES = {commands.Reserve, commands.ReserveWithTimeout}
# What is done for a client that is gone, too.
CHANGES = VERBS.keys() - {commands.ReserveJob}
CLAIMS_OR_CHANGES = VERBS.keys() | RESERVES


class Broker:
    """Takes commands from any thread, and answers them from its own, by ``answer``.

    A client gives a command once the one before is answered, but for puts after a put.
    """

    def __init__(self, using: str, answer: Answer, job_size_max: int = JOB_SIZE) -> None:
        self.state = State(job_size_max)
        self.wakeup = Wakeup([using])
        self._session = Session({using}, on_connect=self._on_connect)
        self._backoff = ReconnectBackoff("serving tubes")
        self._inbox = Inbox(self.state.commands, self.wakeup.notify)
        self._transactions = Transactions(using, self.state, self._inbox, answer)
        self._ending = Ending(self.state, self._inbox, self._transactions)
        self._reserving, self._promoting = Fence("reserving"), Fence("promoting delayed jobs")
        self._others = OneByOne()
        self._pause = LOOK_SECONDS
        self._look_at = self._refresh_at = 0.0
        self._has_rooms = False
        self._is_over = threading.Event()

    # From any thread

    def submit(self, client: Client, *given: Any) -> None:
        """A command, several puts, or news of the client."""
        self._inbox.put(client, *given)

    def note_refused(self, client: Client, refused: Refused) -> None:
        """A command that was understood, and is answered already."""
        self._inbox.count(refused.kind)
        client.is_producer |= refused.reply != JOB_TOO_BIG

    def stop(self) -> None:
        self._is_over.set()
        self.wakeup.notify()

    # In its own

    def run(self) -> None:
        """Until it is stopped; what clients hold then is given back."""
        try:
            while not self._is_over.is_set():
                self._sleep(self._attempt(self.turn))
            self._attempt(self._last_turns)
        finally:
            self._attempt(self._give_back_all)

    def _sleep(self, seconds: float) -> None:
        if self._backoff.failures:
            # Whatever clients say meanwhile: it would fail as well.
            self._is_over.wait(seconds)
        elif not self.state.waiters or seconds <= 0:
            self.wakeup.sleep(seconds)
        elif self.wakeup.sleep_until_news(seconds):
            self._look_at = 0.0

    def _give_back_all(self) -> float:
        self._ending.give_back_all()
        return 0.0

    def _last_turns(self) -> float:
        """Do and answer what clients have said already, but for what would give them jobs."""
        end = time.monotonic() + LAST_SECONDS
        self.state.waiters.clear()
        while self._inbox and time.monotonic() < end:
            self.turn()
        return 0.0

    def _attempt(self, step: Callable[[], float]) -> float:
        """Seconds until another turn; while the database is away everybody waits."""
        try:
            self._session.prepare()
            seconds = step()
        except Error as error:
            self._session.recover(error)
            return self._backoff.failed(error)
        self._backoff.worked()
        return seconds

    def _on_connect(self, dialect: Dialect) -> None:
        dialect.keep_to_indexes()
        dialect.listen()

    @property
    def uuid(self) -> str:
        """By which its claims are known."""
        return self._transactions.uuid

    @property
    def table(self) -> Table:
        return self._transactions.table

    def turn(self) -> float:
        """Do what is wanted and what is due; seconds until there may be more to do."""
        if not self._has_rooms:
            self._has_rooms = True
            make_rooms(self.table)
        self._refresh()
        wanted = self._take()
        try:
            self._give_back(wanted)
            self._serve(wanted)
        except Error as error:
            self._inbox.put_back(self._transactions.unanswered(wanted))
            if kind_of(self.table, error) is ErrorKind.AGAIN:
                self._end_waits()
            raise
        self._end_waits()
        self._give_back()
        return self._rest()

    def _take(self) -> list[Wanted]:
        """The commands that are for this turn. News are noted first: nobody who is gone shall get a
        job."""
        self._transactions.begin_turn()
        wanted = self._inbox.take()
        for client, news in wanted:
            if isinstance(news, News):
                self._note(client, news)
            # Nobody hears of a job that is given in the last turns.
            client.is_gone |= self._is_over.is_set()
        given = [one for one in wanted if not isinstance(one[1], News)]
        self._others.add(one for one in given if type(one[1]) not in CLAIMS_OR_CHANGES)
        return [
            (client, command)
            for client, command in given
            if type(command) in (CHANGES if client.is_gone else CLAIMS_OR_CHANGES)
        ]

    def _serve(self, wanted: list[Wanted]) -> None:
        writing: dict[type[Any], list[Wanted]] = defaultdict(list)
        for client, command in wanted:
            kind = type(command)
            if kind in VERBS:
                writing[kind].append((client, command))
            else:
                self.state.wait(client, getattr(command, "seconds", float("inf")))
        is_due = self.state.end_pauses() or time.monotonic() >= self._look_at
        may_look = bool(self.state.waiters) and time.monotonic() >= self._reserving.again_at
        looks = may_look and (bool(wanted) or is_due)
        if writing or looks:
            self._write(writing, list(self.state.waiters) if looks else [])
        if looks:
            self._pause = LOOK_SECONDS if wanted else min(LOOK_SECONDS_MAX, self._pause * 1.5)
            self._look_at = 0.0 if self.state.looks_again() else time.monotonic() + self._pause
        self._others.answer_some(self._transactions, self.state)

    def _note(self, client: Client, news: News) -> None:
        if news is News.CONNECTED:
            self.state.welcome(client)
        elif news is News.HALF_CLOSED:
            client.has_ended = True
        else:
            client.is_gone = True
            self.state.waiters.pop(client, None)

    def _write(self, writing: dict[type[Any], list[Wanted]], waiting: list[Client]) -> None:
        """In one transaction; where it fails by a fault of one of them, each in its own."""

        def all_of_them(turn: Turn) -> None:
            for kind, verb in VERBS.items():
                if kind in writing:
                    verb(turn, writing[kind])
            if waiting:
                reserve(turn, waiting)

        try:
            self._transactions.run(all_of_them)
            if waiting:
                self._reserving.worked()
            return
        except FAULTS as error:
            if is_to_be_repeated(self.table, error) and not is_locked(self.table, error):
                raise
        write_apart(writing, self._transactions)
        if waiting:
            alone = partial(self._transactions.run, lambda turn: reserve(turn, waiting))
            self._reserving.run(self.table, alone)

    def _refresh(self) -> None:
        """What others may have done meanwhile: pauses, and delayed jobs that are due."""
        if time.monotonic() < min(self._refresh_at, self.state.due_at):
            return
        self.state.due_at = self._promote()
        self.state.pauses = pauses_of(self.table, self.state.pauses)
        self._refresh_at = time.monotonic() + REFRESH_SECONDS

    def _promote(self) -> float:
        """When the next delayed job will be due; not that of one that somebody has locked. Where
        very many are, the rest is for the next turns."""
        now = time.monotonic()
        seconds, _ = next_moves(self.table)
        if seconds is None:
            return float("inf")
        if seconds > 0 or now < self._promoting.again_at:
            return max(now + seconds, self._promoting.again_at)
        count = self._promoting.run(self.table, partial(promote, self.table))
        if count is None:
            return self._promoting.again_at
        if count == 0:
            return float("inf")
        self._look_at = 0.0
        return now

    def _give_back(self, wanted: Sequence[Wanted] = ()) -> None:
        if self._ending.give_back(wanted):
            self._look_at = 0.0

    def _end_waits(self) -> None:
        """Answer those who are to wait no longer."""
        for client, is_warned in self.state.ended_waits():
            word = replies.DEADLINE_SOON if is_warned else replies.TIMED_OUT
            self._transactions.reply(client, word)

    def _rest(self) -> float:
        """Seconds until something is due."""
        due = [self._ending.due_at, 0.0 if self._inbox else time.monotonic() + IDLE_SECONDS]
        due += [self._others.due_at, self._inbox.later_at, self._transactions.unsure_at]
        if self.state.waiters:
            due += [max(self._look_at, self._reserving.again_at), self._refresh_at]
            due += [self.state.due_at, self.state.unpaused_at()]
        elif self.state.due_at <= time.monotonic():
            due.append(0.0)
        for client, waiter in self.state.waiters.items():
            due += [waiter.ends_at, client.warned_at()]
        return max(0.0, min(due) - time.monotonic())
