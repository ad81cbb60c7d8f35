"""What all clients want in one turn of the broker, as one transaction.

It may be rolled back and run again: what is to be answered and remembered is written down here, and
counts once the transaction is committed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from ..guard import capture
from ..lifecycle import holder
from ..lifecycle.by_key import Done
from ..lifecycle.table import Table
from . import replies
from .models import TubeJob
from .rows import Body, Taken
from .state import Client, Hold, State

Given: TypeAlias = Sequence[tuple[Client, Any]]


class Turn:
    """What all clients want together, in one transaction."""

    def __init__(self, table: Table, state: State, next_owner: Callable[[], str]) -> None:
        self.table = table
        self.state = state
        self._next_owner = next_owner
        self.answers: list[tuple[Client, bytes]] = []
        self.after: list[Callable[[], object]] = []
        self.owners: list[str] = []  # of the claims that it makes
        self.is_complete = False  # but for the commit
        self.again: list[tuple[Client, Any]] = []  # what is left for the next one
        self.locked: list[tuple[Client, Any]] = []  # what is left until somebody ends a transaction

    def next_owner(self) -> str:
        self.owners.append(self._next_owner())
        return self.owners[-1]

    def answer(self, client: Client, reply: bytes) -> None:
        self.answers.append((client, reply))

    def committed(self) -> None:
        """Where something cannot be remembered all else is."""
        failed: Exception | None = None
        for remember in self.after:
            with capture() as one:
                remember()
            failed = failed or one.error
        if failed is not None:
            raise failed

    def answer_each(self, given: Given, done: Done, reply: bytes) -> None:
        """To those for whose job it was done, and ``NOT_FOUND`` to the others, unless somebody has
        locked their rows."""
        keys, locked = set(done.keys), set(done.locked)
        for client, command in given:
            if command.id in keys:
                self.answer(client, reply)
            elif command.id in locked:
                self.locked.append((client, command))
            else:
                self.answer(client, replies.NOT_FOUND)

    def held(self, wanted: Mapping[int, Client]) -> dict[int, Hold]:
        """What of that its client holds."""
        holds = ((key, client.holds.get(key)) for key, client in wanted.items())
        return {key: hold for key, hold in holds if hold is not None}

    def reserved(self, client: Client, owner: str, job: Taken) -> None:
        hold = Hold(owner, client, job.tube, job.ttr)
        self.answer(client, replies.job("RESERVED", Body(job.id, job.body)))
        self.after.append(lambda: self.state.hold(job.id, hold))

    def expire(self, owner: str, job: Taken) -> None:
        """Finish a job that Django enqueued with a time after which it is not to be run."""
        row = TubeJob(pk=job.id)
        row.claim_key, row.claim_owner = job.id, owner
        holder.expire(self.table, row)

    def let_go(self, keys: Iterable[int]) -> None:
        gone = list(keys)
        self.after.append(lambda: self.state.let_go(gone))

    def end(self, held: Mapping[int, Hold], kept: Iterable[int]) -> None:
        """Holds, but for those of some keys."""
        among = set(kept)
        ended = {key: hold for key, hold in held.items() if key not in among}
        self.after.append(lambda: self.state.end(ended))


Verb: TypeAlias = Callable[[Turn, Given], None]
