"""How jobs ended, and how that is written."""

from dataclasses import dataclass
from typing import Any

from .. import events
from ..exceptions import ClaimLost
from ..guard import message_of
from ..lifecycle import holder
from ..lifecycle.holder import Written
from ..lifecycle.results import NONE, Results
from ..lifecycle.table import Table


@dataclass(slots=True)
class Outcome:
    """How a job ended."""

    table: Table
    owner: str
    job: Any
    error: Exception | None = None
    seconds: float = 0
    expired: bool = False
    results: Results = NONE
    # Whether no others of the same claim are to come.
    ends_claim: bool = True

    @property
    def is_completion(self) -> bool:
        return self.error is None and not self.expired


def write_next(outcomes: list[Outcome]) -> list[Outcome]:
    """Write the first outcome, and with a completion all of the same claim; what is left."""
    first = outcomes[0]
    table = first.table.on_this_thread()
    if first.expired:
        _expire(first, table)
        return outcomes[1:]
    if first.error is not None:
        _fail(first, table, first.error)
        return outcomes[1:]
    completions: list[Outcome] = []
    others: list[Outcome] = []
    for one in outcomes:
        (completions if one.owner == first.owner and one.is_completion else others).append(one)
    _complete(table, completions)
    return others


def _complete(table: Table, group: list[Outcome]) -> None:
    owner = group[0].owner
    written = _written(table, owner, group)
    done = [(one.job, one.seconds) for one in group]
    if written.lost or written.gone:
        lost, gone = set(written.lost), set(written.gone)
        for job, _ in done:
            if job.claim_key in lost:
                events.lost(table, job, owner, "it may run twice")
            elif job.claim_key in gone:
                events.gone(table, job, owner)
        done = [(job, seconds) for job, seconds in done if job.claim_key not in lost | gone]
    events.completed(table, done)


def _written(table: Table, owner: str, group: list[Outcome]) -> Written:
    """Completed together, or, where each has results of its own, one by one."""
    if not table.policy.results:
        return holder.complete(table, owner, [outcome.job.claim_key for outcome in group])
    written = Written()
    for outcome in group:
        written += holder.complete(table, owner, [outcome.job.claim_key], outcome.results)
    return written


def _expire(outcome: Outcome, table: Table) -> None:
    try:
        was_there = holder.expire(table, outcome.job)
    except ClaimLost as error:
        events.lost(table, outcome.job, outcome.owner, error)
    else:
        if was_there:
            events.expired(table, outcome.job)
        else:
            events.gone(table, outcome.job, outcome.owner)


def _fail(outcome: Outcome, table: Table, error: Exception) -> None:
    try:
        decision = holder.fail(table, outcome.job, error, outcome.seconds)
    except ClaimLost:
        said = f"{type(error).__name__}: {message_of(error)}"
        events.lost(table, outcome.job, outcome.owner, f"its error was: {said}")
    else:
        if decision is None:
            events.gone(table, outcome.job, outcome.owner)
        else:
            events.failed(table, outcome.job, error, outcome.seconds, decision, outcome.owner)
    # Its frames hold the job's local variables, and of a coroutine the thread of its loop.
    error.__traceback__ = None
