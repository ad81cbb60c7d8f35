"""What the server remembers: its clients, what they hold, and what was counted since it started."""

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any

from ..models.queue import ALL, AnyQueue
from .protocol import JOB_SIZE

DEFAULT_TUBE = "default"
NAMES_MAX = 1000  # of tubes, before those are forgotten that have ceased to exist
MISSED_SECONDS = 1.0  # for which a reserve looks on that has missed a job
TUBES_MAX = 500  # that are watched, at which a turn looks
PASSED_SECONDS = 0.5  # for which nobody looks at a job that is locked
LOCKED_SECONDS = 0.2  # until what is locked for long is tried again
ENDS_MORE = 1000  # than twice as many as there are holds: then they are noted once more
MARGIN_SECONDS = 1.0  # before the end of a job's ttr, in which a reserve is warned


@dataclass(slots=True)
class Hold:
    """A job that a client has reserved; ``ends_at`` by the monotonic clock."""

    owner: str
    client: "Client"
    tube: str
    ttr: int
    ends_at: float = 0.0


@dataclass(slots=True)
class Waiter:
    """A reserve that has found no job so far."""

    ends_at: float
    has_missed: bool = False  # another server has taken the job that it was to get


@dataclass(eq=False, slots=True)
class Client:
    """One connection."""

    used: str = DEFAULT_TUBE
    watched: list[str] = field(default_factory=lambda: [DEFAULT_TUBE])
    holds: dict[int, Hold] = field(default_factory=dict)
    is_producer: bool = False
    is_worker: bool = False
    has_ended: bool = False  # it says nothing more, and reads
    is_gone: bool = False
    locked_at: float = 0.0  # since when somebody has locked what it wants

    def warned_at(self) -> float:
        """When the first of its jobs comes into the last second of its ttr."""
        ends = [hold.ends_at for hold in self.holds.values()]
        return min(ends, default=float("inf")) - MARGIN_SECONDS


@dataclass(slots=True)
class TubeStats:
    """What was counted of a tube since it exists, by this server."""

    total_jobs: int = 0
    deletes: int = 0
    pauses: int = 0


@dataclass(slots=True)
class Pause:
    seconds: int
    ends_at: float

    @property
    def left(self) -> float:
        return self.ends_at - time.monotonic()


class State:
    """All of it, in the broker's hands; the loop counts commands, and says who is a producer and
    that no job comes in any more; the keeper says whether jobs are given out."""

    def __init__(self, job_size_max: int = JOB_SIZE) -> None:
        self.job_size_max = job_size_max
        self.clients: set[Client] = set()
        # Those whose reserves have found no job so far, the longest first.
        self.waiters: dict[Client, Waiter] = {}
        self.holds: dict[int, Hold] = {}
        self._ends: list[tuple[float, int]] = []
        self._looked_up_to = ""  # a name of a tube, where very many are watched
        self.passed: dict[int, float] = {}  # ready jobs that were locked, and for how long
        self.tubes: dict[str, TubeStats] = {}
        self.order: dict[str, None] = {DEFAULT_TUBE: None}  # of tubes, as they were made
        self._order_max = NAMES_MAX
        self.pauses: dict[str, Pause] = {}
        self.commands: Counter[type[Any]] = Counter()
        self.connections = self.timeouts = self.total_jobs = 0
        self.due_at = float("inf")  # when the first delayed job becomes ready, as far as we know
        self.is_draining = False  # as clients know it: no job comes in
        self.gives_nothing = False  # as workers that are asked to drain

    def welcome(self, client: Client) -> None:
        self.clients.add(client)
        self.connections += 1

    def wait(self, client: Client, seconds: float) -> None:
        client.is_worker = True
        self.waiters[client] = Waiter(time.monotonic() + seconds)

    def note_missed(self, clients: Collection[Client]) -> None:
        """The clients that have missed a job this time; the others have not."""
        for client, waiter in self.waiters.items():
            waiter.has_missed = client in clients

    def part_of(self, tubes: Collection[str]) -> tuple[list[str], bool]:
        """Those of the tubes at which a turn looks: of very many some, and whether they are the
        last ones. Each part is another one."""
        if len(tubes) <= TUBES_MAX:
            return list(tubes), True
        names = sorted(name for name in tubes if name > self._looked_up_to)
        is_last = len(names) <= TUBES_MAX
        self._looked_up_to = "" if is_last else names[TUBES_MAX - 1]
        return names[:TUBES_MAX], is_last

    def pass_over(self, keys: Iterable[int]) -> None:
        """Somebody has locked them."""
        self.passed.update(dict.fromkeys(keys, time.monotonic() + PASSED_SECONDS))

    def passed_over(self) -> set[int]:
        """Those that nobody looks at now."""
        now = time.monotonic()
        self.passed = {key: at for key, at in self.passed.items() if at > now - PASSED_SECONDS}
        return {key for key, at in self.passed.items() if at > now}

    def looks_again(self) -> bool:
        """Whether a client has missed a job, and there may be more."""
        return any(waiter.has_missed for waiter in self.waiters.values())

    def ended_waits(self) -> list[tuple[Client, bool]]:
        """The clients that wait no longer, and whether a job of theirs is in its last second."""
        now = time.monotonic()
        found: list[tuple[Client, bool]] = []
        for client, waiter in self.waiters.items():
            warned_at = client.warned_at()
            # A client that has closed its side cannot say that it still waits.
            ends_at = now if client.has_ended else waiter.ends_at
            if waiter.has_missed and now < ends_at + MISSED_SECONDS:
                continue
            is_warned = warned_at <= now and warned_at <= ends_at
            if is_warned or ends_at <= now:
                found.append((client, is_warned))
        return found

    def end_gone(self) -> None:
        """Forget clients that are gone; what they hold has ended."""
        for client in [one for one in self.clients if one.is_gone]:
            self.clients.discard(client)
            self._end_in(0.0, client.holds)

    def hold(self, key: int, hold: Hold) -> None:
        # Somebody may have taken the job from one who does not know it yet.
        self.let_go([key])
        self.holds[key] = hold
        hold.client.holds[key] = hold
        hold.client.is_worker = True
        self.begin_again({key: hold})

    def let_go(self, keys: Iterable[int]) -> None:
        for key in keys:
            hold = self.holds.pop(key, None)
            if hold is not None:
                hold.client.holds.pop(key, None)

    def end(self, holds: Mapping[int, Hold]) -> None:
        """Let go of these, and not of one that has come after."""
        self.let_go(key for key, hold in holds.items() if self.holds.get(key) is hold)

    def begin_again(self, holds: Mapping[int, Hold]) -> None:
        """Their time, but of a client that is gone meanwhile."""
        for key, hold in holds.items():
            self._end_in(0.0 if hold.client.is_gone else hold.ttr, {key: hold})

    def next_end(self) -> float:
        """When the first hold ends, as far as it is known."""
        return self._ends[0][0] if self._ends else float("inf")

    def ended(self, limit: int) -> dict[int, Hold]:
        """So many of the holds whose time is over."""
        found: dict[int, Hold] = {}
        now = time.monotonic()
        while len(found) < limit and self._ends and self._ends[0][0] <= now:
            ends_at, key = heappop(self._ends)
            hold = self.holds.get(key)
            if hold is not None and hold.ends_at == ends_at:
                found[key] = hold
        return found

    def end_soon(self, holds: Mapping[int, Hold]) -> None:
        """They have ended, and cannot be given back now."""
        self._end_in(LOCKED_SECONDS, holds)

    def _end_in(self, seconds: float, holds: Mapping[int, Hold]) -> None:
        ends_at = time.monotonic() + seconds
        for key, hold in holds.items():
            hold.ends_at = ends_at
            self._note_end(key, hold)

    def _note_end(self, key: int, hold: Hold) -> None:
        heappush(self._ends, (hold.ends_at, key))
        # Those of jobs that are deleted or touched long before would pile up.
        if len(self._ends) > 2 * len(self.holds) + ENDS_MORE:
            self._ends = [(hold.ends_at, key) for key, hold in self.holds.items()]
            heapify(self._ends)

    def note_put(self, clients: Sequence[Client]) -> None:
        self.total_jobs += len(clients)
        for client in clients:
            client.is_producer = True
            self.tube(client.used).total_jobs += 1

    def note_delayed(self, seconds: int) -> None:
        self.due_at = min(self.due_at, time.monotonic() + seconds)

    def note_deleted(self, tubes: Sequence[str]) -> None:
        for name in tubes:
            self.tube(name).deletes += 1

    def note_timeouts(self, count: int) -> None:
        self.timeouts += count

    def knows(self, tube: str) -> bool:
        return tube in self.order or tube in self.tubes

    def knows_too_many(self) -> bool:
        """Tubes, most of which may have ceased to exist."""
        return len(self.order) > self._order_max

    def keep_tubes(self, living: set[str]) -> None:
        """Forget the tubes that have ceased to exist; those of other servers come last."""
        kept = [name for name in self.order if name in living]
        self.order = dict.fromkeys([*kept, *sorted(living.difference(kept))])
        self.tubes = {name: stats for name, stats in self.tubes.items() if name in living}
        self._order_max = max(NAMES_MAX, 2 * len(self.order))

    def forget_tube(self, tube: str) -> None:
        self.order.pop(tube, None)
        self.tubes.pop(tube, None)

    def tube(self, name: str) -> TubeStats:
        return self.tubes.setdefault(name, TubeStats())

    def is_used(self, tube: str) -> bool:
        """Whether a client of this server uses or watches it."""
        return any(tube == client.used or tube in client.watched for client in self.clients)

    def paused(self) -> set[str]:
        names = {name for name, pause in self.pauses.items() if pause.left > 0}
        return AnyQueue(names) if self.gives_nothing or ALL in names else names

    def unpaused_at(self) -> float:
        """When the first pause ends."""
        return min((pause.ends_at for pause in self.pauses.values()), default=float("inf"))

    def end_pauses(self) -> bool:
        """Whether one has ended since the last time."""
        lasting = {name: pause for name, pause in self.pauses.items() if pause.left > 0}
        has_ended = len(lasting) < len(self.pauses)
        self.pauses = lasting
        return has_ended

    def pause_of(self, tube: str) -> Pause | None:
        """That of a tube, or of all, which has not ended."""
        known = (self.pauses.get(name) for name in (tube, ALL))
        return next((pause for pause in known if pause and pause.left > 0), None)
