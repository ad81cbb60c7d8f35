"""The transactions of the broker's turns, and who has been answered in this one."""

import itertools
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence

from django.db.utils import Error

from ..dialects import ErrorKind
from ..lifecycle import by_key
from ..lifecycle.claim_end import UNHARMED
from ..lifecycle.execute import in_transaction, placeholders
from ..lifecycle.held import find_held
from ..lifecycle.table import Table, table_of
from .faults import kind_of
from .inbox import Inbox, Wanted
from .joint import Turn
from .models import TubeJob
from .state import LOCKED_SECONDS, Client, State

# The bytes to send; None where nobody knows what became of a command: the connection is closed.
Answer = Callable[[Client, bytes | None], None]
AGAIN_SECONDS = 0.01  # until what is locked is tried again for the first time
LATER_SECONDS = 1.0  # until that is tried again for whose locks the database waits
UNSURE_SECONDS = 60.0  # in which a commit that got no answer may come about, as behind a slow disk
UNSURE_LOOK_SECONDS = 2.0  # between looks for what it has claimed


class Transactions:
    """What clients hear of them is committed."""

    def __init__(self, using: str, state: State, inbox: Inbox, answer: Answer) -> None:
        self.using = using
        self.uuid = uuid.uuid4().hex
        # Owners of claims that may have been committed, or may be yet, and until when.
        self._unsure: dict[str, float] = {}
        self.unsure_at = float("inf")  # when they are looked for
        self._state = state
        self._inbox = inbox
        self._answer = answer
        self._numbers = itertools.count(1)
        self._answered: Counter[Client] = Counter()  # in this turn

    @property
    def table(self) -> Table:
        return table_of(TubeJob, self.using)

    def begin_turn(self) -> None:
        self._answered.clear()

    def run(self, work: Callable[[Turn], object]) -> Turn:
        """One transaction, and what was committed; where its commit gets no answer, its clients are
        left without one, too: what became of their commands is unknown."""
        turns: list[Turn] = []

        def run() -> Turn:
            turn = Turn(self.table, self._state, lambda: f"{self.uuid}.{next(self._numbers)}")
            turns.append(turn)
            work(turn)
            turn.is_complete = True
            return turn

        try:
            turn = in_transaction(self.table.connection, run)
        except Error as error:
            last = turns[-1] if turns else None
            # Any other error says that nothing was committed.
            is_lost = kind_of(self.table, error) is ErrorKind.LOST
            if last is not None and last.is_complete and is_lost:
                owners = [owner for one in turns for owner in one.owners]
                self._unsure.update(dict.fromkeys(owners, time.monotonic() + UNSURE_SECONDS))
                self.unsure_at = 0.0
                for client, _ in [*last.answers, *last.again]:
                    self.reply(client, None)
            raise
        try:
            turn.committed()
        finally:
            self._tell(turn)
        return turn

    def _tell(self, turn: Turn) -> None:
        self._answered.update(client for client, _ in turn.again)
        self._inbox.put_back(turn.again)
        self._put_locked(turn.locked)
        for client, reply in turn.answers:
            self.reply(client, reply)

    def give_back_unsure(self) -> None:
        """What claims may have taken of which nobody was told; what is locked another time."""
        now = time.monotonic()
        if now < self.unsure_at:
            return
        owners = list(self._unsure)
        among = f"owner IN ({placeholders(owners)}) AND retry_at IS NOT NULL"
        held = find_held(self.table, among, owners) if owners else []
        claims = {one.key: str(one.owner) for one in held}
        if claims:
            self.run(lambda turn: by_key.end_claims(turn.table, claims, UNHARMED))
        found = {*claims.values()}
        self._unsure = {
            owner: until for owner, until in self._unsure.items() if until > now or owner in found
        }
        seconds = LOCKED_SECONDS if found else UNSURE_LOOK_SECONDS
        self.unsure_at = now + seconds if self._unsure else float("inf")

    def reply(self, client: Client, reply: bytes | None) -> None:
        self._state.waiters.pop(client, None)
        client.locked_at = 0.0
        self._answered[client] += 1
        self._answer(client, reply)

    def _put_locked(self, given: Sequence[Wanted]) -> None:
        """Soon again at first: most transactions are short, and others may come in between."""
        now, waited = time.monotonic(), float("inf")
        for client, _ in given:
            client.locked_at = client.locked_at or now
            waited = min(waited, now - client.locked_at)
        self.put_later(given, min(LOCKED_SECONDS, max(AGAIN_SECONDS, waited / 2)))

    def put_later(self, given: Sequence[Wanted], seconds: float = LATER_SECONDS) -> None:
        """What somebody has locked."""
        left = self.unanswered(given)
        self._answered.update(client for client, _ in left)
        self._inbox.put_later(left, seconds)

    def unanswered(self, wanted: Sequence[Wanted]) -> list[Wanted]:
        """What is to be done in another turn: a client is answered in the order of its commands."""
        done, found = self._answered.copy(), []
        for client, command in wanted:
            done[client] -= 1
            if done[client] < 0 and client not in self._state.waiters:
                found.append((client, command))
        return found
