"""How one claim's jobs ended, written in one statement where they ended well."""

from .. import events
from ..exceptions import ClaimLost, recorded
from ..guard import message_of
from ..lifecycle import holder
from ..lifecycle.holder import Written
from ..lifecycle.table import Table
from .buffer import GivenBack, Outcome, by_results


def write_next(outcomes: list[Outcome]) -> list[Outcome]:
    """Write the first outcome, and with a completion all of the same claim; what is left."""
    first = outcomes[0]
    table, owner = first.table.on_this_thread(), first.owner
    if first.expired or first.error is not None:
        _write_failure(table, first)
        return outcomes[1:]
    done = [one for one in outcomes if one.owner == owner and one.error is None and not one.expired]
    others = [one for one in outcomes if one.owner != owner or one.error is not None or one.expired]
    written = Written()
    for results, keys in by_results(done):
        written += holder.complete(table, owner, keys, results, [one.job for one in done])
    if written.lost or written.gone:
        lost, gone = set(written.lost), set(written.gone)
        for one in done:
            if one.job.claim_key in lost:
                events.lost(table, one.job, owner, "it may run twice")
            elif one.job.claim_key in gone:
                events.gone(table, one.job, owner)
        done = [one for one in done if one.job.claim_key not in lost | gone]
    events.completed(table, [(one.job, one.seconds) for one in done])
    return others


def _write_failure(table: Table, outcome: Outcome) -> None:
    """Of a job that raised an error, or had expired and was not run, or was stopped with us."""
    job, owner, error = outcome.job, outcome.owner, outcome.error
    if isinstance(error, GivenBack):
        holder.release(table, owner, [job.claim_key])
        return
    try:
        if error is None:
            was_there, decision = holder.expire(table, job), None
        else:
            decision = holder.fail(table, job, error, outcome.seconds)
            was_there = decision is not None
    except ClaimLost as lost:
        real = error and recorded(error)
        words = "" if real is None else f"{type(real).__name__}: {message_of(real)}"
        events.lost(table, job, owner, f"its error was: {words}" if words else lost)
    else:
        if error is not None and decision is not None:
            events.failed(table, job, error, outcome.seconds, decision, owner)
        elif was_there:
            events.expired(table, job)
        else:
            events.gone(table, job, owner)
    if error is not None:
        # Its frames hold the job's local variables, and of a coroutine the thread of its loop.
        error.__traceback__ = recorded(error).__traceback__ = None
