"""What clients held that are gone, or whose time is over: it comes back, in parts.

Each part is a transaction, and others have their turns in between: a client may hold very many.
"""

import time
from collections.abc import Mapping, Sequence, Set

from .faults import FAULTS, Fence
from .inbox import CHANGES_ONE, Inbox, Wanted
from .reserving import give_back
from .state import Client, Hold, State
from .transactions import Transactions

# In a transaction: each row is compared with all that a statement names.
ENDED_AT_ONCE = 500
Named = Set[tuple[Client, int]]  # clients, and jobs by their keys


class Ending:
    """Gives back what is over, and what a claim may have taken whose commit got no answer."""

    def __init__(self, state: State, inbox: Inbox, transactions: Transactions) -> None:
        self._state = state
        self._inbox = inbox
        self._transactions = transactions
        self._fence = Fence("giving back jobs")

    @property
    def due_at(self) -> float:
        """When there is something to give back, as far as it is known."""
        return max(self._state.next_end(), self._fence.again_at)

    def give_back(self, wanted: Sequence[Wanted] = ()) -> bool:
        """A part of it, and whether there was any. What clients that are gone have said is done
        first."""
        self._transactions.give_back_unsure()
        self._state.end_gone()
        if self.due_at > time.monotonic():
            return False
        holds = self._state.ended(ENDED_AT_ONCE)
        if not holds:
            return False
        named = self._named(wanted)
        late = {key: hold for key, hold in holds.items() if hold.client.is_gone}
        said = {key: hold for key, hold in late.items() if (hold.client, key) in named}
        self._state.end_soon(said)

        def end() -> bool:
            try:
                self._end({key: late[key] for key in late if key not in said}, is_over=False)
                self._end({key: holds[key] for key in holds if key not in late}, is_over=True)
            except FAULTS:
                self._state.end_soon(holds)
                raise
            return True

        return bool(self._fence.run(self._transactions.table, end))

    def give_back_all(self) -> None:
        """Where the server ends."""
        self._transactions.unsure_at = 0.0
        self._transactions.give_back_unsure()
        holds = list(self._state.holds.items())
        for at in range(0, len(holds), ENDED_AT_ONCE):
            self._end(dict(holds[at : at + ENDED_AT_ONCE]), is_over=False)

    def _named(self, wanted: Sequence[Wanted]) -> Named:
        """Clients that are gone, and jobs that are named by what they have said."""
        said = [*wanted, *self._inbox.all()]
        return {(one, what.id) for one, what in said if one.is_gone and type(what) in CHANGES_ONE}

    def _end(self, holds: Mapping[int, Hold], *, is_over: bool) -> None:
        if holds:
            self._transactions.run(lambda turn: give_back(turn, holds, is_over))
