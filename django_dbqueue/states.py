"""The states of a job and the moves between them.

::

    enqueue ---> ready <------- promote ------- delayed <--- enqueue with a delay
                 |  ^                             ^
           claim |  | release, fail, reap         | release, fail, reap with a delay
                 v  |                             |
               claimed ---------------------------+
                 |    \\
        complete |     \\ bury, fail without attempts left, third crash
                 v      v
               done    buried --- kick ---> ready

Cancel takes a job out of any state. Kick also makes a delayed job ready, or a buried one delayed.
A ready job that has to wait for its concurrency key is parked, delayed without a time, until it is
woken. Reschedule gives a job that waits another time; move and prioritize leave it in its state.
Drop makes room in a full queue: a waiting job is buried, or done where it had expired.
"""

from django.db import models


class Status(models.IntegerChoices):
    """What a row of a queue table is at the moment; the numbers stand in indexes and SQL."""

    READY = 0, "ready"
    CLAIMED = 1, "claimed"
    DONE = 2, "done"
    DELAYED = 3, "delayed"
    BURIED = 4, "buried"


# What may still run, and nobody has: a person changes no job under its worker.
UNHELD = {Status.READY, Status.DELAYED, Status.BURIED}
MOVES: dict[str, tuple[frozenset[Status], frozenset[Status]]] = {
    verb: (frozenset(sources), frozenset(targets))
    for verb, sources, targets in (
        ("claim", {Status.READY}, {Status.CLAIMED}),
        ("touch", {Status.CLAIMED}, {Status.CLAIMED}),
        ("complete", {Status.CLAIMED}, {Status.DONE}),
        ("expire", {Status.CLAIMED}, {Status.DONE}),
        ("fail", {Status.CLAIMED}, {Status.READY, Status.DELAYED, Status.BURIED}),
        ("release", {Status.CLAIMED}, {Status.READY, Status.DELAYED}),
        ("reap", {Status.CLAIMED}, {Status.READY, Status.DELAYED, Status.BURIED}),
        ("promote", {Status.DELAYED}, {Status.READY}),
        ("park", {Status.READY}, {Status.DELAYED}),
        ("wake", {Status.DELAYED}, {Status.READY}),
        ("bury", {Status.READY, Status.CLAIMED, Status.DELAYED}, {Status.BURIED}),
        ("kick", {Status.DELAYED, Status.BURIED}, {Status.READY, Status.DELAYED}),
        ("reschedule", {Status.READY, Status.DELAYED}, {Status.DELAYED}),
        ("move", UNHELD, UNHELD),
        ("prioritize", UNHELD, UNHELD),
        ("drop", {Status.READY, Status.DELAYED}, {Status.BURIED, Status.DONE}),
        ("cancel", set(Status), ()),
        ("delete", set(Status) - {Status.CLAIMED}, ()),
        ("archive", {Status.DONE}, ()),
    )
}
"""verb -> (states that it takes a job from, states that it leaves a job in)"""


def state_for(verb: str) -> str:
    """SQL for: the job is in the one state from which this verb takes it."""
    [source] = MOVES[verb][0]
    return f"status = {source:d}"


CLAIMABLE = state_for("claim")
# With the sign no index over the state is taken, which may lead through all that is ready: for
# what is found by its key.
CLAIMABLE_BY_KEY = f"+{CLAIMABLE}"
HELD = state_for("complete")
PROMOTABLE = state_for("promote")
ARCHIVABLE = state_for("archive")
