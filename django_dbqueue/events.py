"""What happens to jobs, told to those who have subscribed: logs, Django's signals, metrics.

A receiver is called in the thread in which the thing has happened, mostly a worker's own. It must
be quick, and must not raise.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, ParamSpec

if TYPE_CHECKING:
    from .lifecycle.claim_end import RetryDecision
    from .lifecycle.reap import Reaped
    from .lifecycle.table import Table

P = ParamSpec("P")
# Told at the end of what was begun, with its error if it has one.
End = Callable[[BaseException | None], object]


class Event(Generic[P]):
    """One kind of thing that happens; who calls it tells all receivers, in their order."""

    def __init__(self) -> None:
        self.receivers: list[Callable[P, object]] = []

    def subscribe(self, receiver: Callable[P, object]) -> None:
        """Once, however often it is asked for."""
        if receiver not in self.receivers:
            self.receivers.append(receiver)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        for receiver in self.receivers:
            receiver(*args, **kwargs)


class Around(Generic[P]):
    """Something that takes its time; who calls it tells all receivers that it begins, and calls
    what comes back at its end."""

    def __init__(self) -> None:
        self.receivers: list[Callable[P, End]] = []

    def subscribe(self, receiver: Callable[P, End]) -> None:
        """Once, however often it is asked for."""
        if receiver not in self.receivers:
            self.receivers.append(receiver)

    def unsubscribe(self, receiver: Callable[P, End]) -> None:
        if receiver in self.receivers:
            self.receivers.remove(receiver)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> End:
        if not self.receivers:
            return _nothing
        ends = [receiver(*args, **kwargs) for receiver in self.receivers]

        def end(error: BaseException | None) -> None:
            for one in reversed(ends):
                one(error)

        return end


def seconds_by_queue(done: Sequence[tuple[Any, float]]) -> dict[str, list[float]]:
    """Of completed jobs, how long each ran: who counts them does so once a queue."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for job, seconds in done:
        found[job.queue].append(seconds)
    return found


def _nothing(_: BaseException | None) -> None:
    """Nobody has subscribed."""


@dataclass(frozen=True)
class Enqueueing:
    """``jobs``: instances that are not saved, or rows as dicts, at least one. What is put into
    ``columns`` is written into each of their rows."""

    model: type[Any]
    jobs: Sequence[Any]
    columns: dict[str, Any] = field(default_factory=dict)


enqueueing: Around[Enqueueing] = Around()
"""over the INSERT"""
running: Around["Table", Sequence[Any]] = Around()
"""table, jobs: over the run of a job, or of several at once"""
claimed: Event["Table", dict[str, list[Any]]] = Event()
"""table, jobs of one claim by queue"""
started: Event["Table", Any] = Event()
"""table, job"""
completed: Event["Table", Sequence[tuple[Any, float]]] = Event()
"""table, (job, seconds that it ran) of each"""
failed: Event["Table", Any, Exception, float, "RetryDecision", str] = Event()
"""table, job, error, seconds that it ran, what becomes of it, owner"""
expired: Event["Table", Any] = Event()
"""table, job that was not run"""
lost: Event["Table", Any, str, object] = Event()
"""table, job that has another owner by now, owner, what else is to be said"""
gone: Event["Table", Any, str] = Event()
"""table, job whose row was deleted while it ran, owner"""
reaped: Event["Table", "list[Reaped]"] = Event()
"""table, jobs that were taken from owners that are gone or over their time"""
retried: Event[str] = Event()
"""database alias on which a statement of ours is run again"""
