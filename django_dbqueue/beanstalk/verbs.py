"""The commands that change jobs, each for all clients that give it in one turn.

They run in one transaction, which may be rolled back and run again: what is to be answered and
remembered is written down in the turn, and counts once the transaction is committed.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from ..fields import DbNow
from ..lifecycle import by_key, holder
from ..lifecycle.by_key import Done
from ..lifecycle.claim_end import UNHARMED, RetryDecision
from ..lifecycle.execute import unlocked_keys
from ..lifecycle.policy import MAX_SECONDS
from ..lifecycle.table import Table
from ..states import Status
from . import commands, replies, rows
from .models import TubeJob
from .rows import ALLOWANCE, ID_MAX, Body, Taken
from .state import Client, Hold, State

KICKED_AT_ONCE = 500
INSERT_MAX = 2**20  # bytes of the bodies in one statement, but for a body that is larger
PASSED_MAX = 1000  # locked jobs of a tube behind which one looks for others
KICKED = ", kicks = kicks + 1", ()
RESERVED = ", reserves = reserves + 1", ()
READY_DELAYED_OR_BURIED = (Status.READY, Status.DELAYED, Status.BURIED)


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
        for remember in self.after:
            remember()

    def answer_each(self, given: "Given", done: Done, reply: bytes) -> None:
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


Given: TypeAlias = Sequence[tuple[Client, Any]]
Verb: TypeAlias = Callable[[Turn, Given], None]


def put(turn: Turn, given: Given) -> None:
    jobs = [_row(client, command) for client, command in given]
    for some in _statements(jobs):
        TubeJob.objects.using(turn.table.connection.alias).bulk_create(some)
    for (client, _), job in zip(given, jobs, strict=True):
        turn.answer(client, replies.line("INSERTED", job.pk))
    turn.after.append(lambda: turn.state.note_put([client for client, _ in given]))
    delays = [command.delay for _, command in given if command.delay]
    if delays:
        turn.after.append(lambda: turn.state.note_delayed(min(delays)))


def _statements(jobs: Sequence[TubeJob]) -> Iterator[list[TubeJob]]:
    """As many jobs as one INSERT should hold: MariaDB breaks the connection where it is larger than
    ``max_allowed_packet``."""
    some: list[TubeJob] = []
    size = 0
    for job in jobs:
        if some and size + len(job.body) > INSERT_MAX:
            yield some
            some, size = [], 0
        some.append(job)
        size += len(job.body)
    yield some


def _row(client: Client, given: commands.Put) -> TubeJob:
    ttr = max(1, given.time_to_run)
    return TubeJob(
        queue=client.used,
        priority=given.priority,
        delay=given.delay,
        ttr=ttr,
        time_to_run=min(ttr, MAX_SECONDS),
        retry_at=DbNow(plus=given.delay) if given.delay else None,
        body=given.body,
    )


def delete(turn: Turn, given: Given) -> None:
    wanted = {command.id: client for client, command in given}
    keys = [key for key in wanted if key <= ID_MAX]
    held = turn.held(wanted)
    tubes = rows.tubes_of(turn.table, [key for key in keys if key not in held])
    tubes |= {key: hold.tube for key, hold in held.items()}
    claims = {key: hold.owner for key, hold in held.items()}
    deleted = by_key.delete(turn.table, keys, claims)
    turn.answer_each(given, deleted, replies.DELETED)
    turn.after.append(lambda: turn.state.note_deleted([tubes[key] for key in deleted.keys]))
    turn.let_go(deleted.keys)


def touch(turn: Turn, given: Given) -> None:
    wanted = {command.id: client for client, command in given}
    held = turn.held(wanted)
    claims = {key: hold.owner for key, hold in held.items()}
    touched = by_key.touch(turn.table, claims, ALLOWANCE)
    turn.answer_each(given, touched, replies.TOUCHED)
    turn.after.append(lambda: turn.state.begin_again(touched.keys))


def release(turn: Turn, given: Given) -> None:
    wanted = {command.id: client for client, command in given}
    held = turn.held(wanted)
    alike: dict[tuple[int, int], dict[int, str]] = defaultdict(dict)
    for _, command in given:
        if command.id in held:
            alike[command.priority, command.delay][command.id] = held[command.id].owner
    released = Done()
    for (priority, delay), claims in alike.items():
        status = Status.DELAYED if delay else Status.READY
        change = ", priority = %s, delay = %s, releases = releases + 1", [priority, delay]
        decision = RetryDecision(status, delay, "released")
        released.add(by_key.end_claims(turn.table, claims, decision, change))
        if delay:
            turn.after.append(partial(turn.state.note_delayed, delay))
    turn.answer_each(given, released, replies.RELEASED)
    turn.let_go(released.keys)


def bury(turn: Turn, given: Given) -> None:
    wanted = {command.id: client for client, command in given}
    held = turn.held(wanted)
    buried = Done()
    for _, command in given:
        if command.id not in held:
            continue
        claims = {command.id: held[command.id].owner}
        change = ", priority = %s, buries = buries + 1, burial = %s"
        given_values = [command.priority, next_burial()]
        decision = RetryDecision(Status.BURIED, 0, "buried")
        buried.add(by_key.end_claims(turn.table, claims, decision, (change, given_values)))
    turn.answer_each(given, buried, replies.BURIED)
    turn.let_go(buried.keys)


def kick_job(turn: Turn, given: Given) -> None:
    keys = [command.id for _, command in given if command.id <= ID_MAX]
    turn.answer_each(given, by_key.kick(turn.table, keys, KICKED), replies.KICKED)


class KickOn(NamedTuple):
    """The rest of a kick of more jobs than one transaction should hold."""

    bound: int
    kicked: int
    status: Status


def kick(turn: Turn, given: Given) -> None:
    """Of a tube's buried jobs, or else of its delayed ones."""
    for client, command in given:
        has_buried = bool(rows.keys_of(turn.table, client.used, Status.BURIED, 1))
        status = Status.BURIED if has_buried else Status.DELAYED
        _kick_some(turn, client, KickOn(command.bound, 0, status))


def kick_on(turn: Turn, given: Given) -> None:
    for client, command in given:
        _kick_some(turn, client, command)


def _kick_some(turn: Turn, client: Client, rest: KickOn) -> None:
    limit = min(rest.bound - rest.kicked, KICKED_AT_ONCE)
    keys = rows.keys_of(turn.table, client.used, rest.status, limit)
    some = len(by_key.kick(turn.table, keys, KICKED).keys)
    kicked = rest.kicked + some
    # None of them: others have locked them all.
    if some and len(keys) == KICKED_AT_ONCE and kicked < rest.bound:
        turn.again.append((client, rest._replace(kicked=kicked)))
    else:
        turn.answer(client, replies.line("KICKED", kicked))


def reserve_job(turn: Turn, given: Given) -> None:
    wanted = {command.id: client for client, command in given}
    owner, keys = turn.next_owner(), [key for key in wanted if key <= ID_MAX]
    sources = READY_DELAYED_OR_BURIED
    taken = by_key.claim(turn.table, keys, owner, sources, ALLOWANCE, RESERVED)
    jobs = rows.taken(turn.table, taken.keys) if taken.keys else []
    for job in jobs:
        turn.reserved(wanted.pop(job.id), owner, job)
    others = [(client, command) for client, command in given if command.id in wanted]
    turn.answer_each(others, Done([], taken.locked), replies.NOT_FOUND)


def reserve(turn: Turn, waiting: Sequence[Client]) -> None:
    """Give each client that waits the job that comes first in the tubes that it watches."""
    chosen = _chosen(turn, waiting)
    if not chosen:
        turn.after.append(lambda: turn.state.note_missed(()))
        return
    owner = turn.next_owner()
    taken = by_key.claim(turn.table, list(chosen), owner, allowance=ALLOWANCE, change=RESERVED)
    for job in rows.taken(turn.table, taken.keys) if taken.keys else []:
        if job.has_expired:
            turn.expire(owner, job)
        else:
            turn.reserved(chosen.pop(job.id), owner, job)
    turn.after.append(lambda: turn.state.pass_over(taken.locked))
    turn.after.append(lambda: turn.state.note_missed(set(chosen.values())))


def _chosen(turn: Turn, waiting: Sequence[Client]) -> dict[int, Client]:
    """By key, who gets which job; who has waited the longest chooses first. Those that somebody has
    locked are passed over."""
    paused, passed = turn.state.paused(), turn.state.passed
    wanted = Counter(tube for client in waiting for tube in client.watched if tube not in paused)
    more = min(2 * len(passed), PASSED_MAX)
    ready = rows.ready(turn.table, {tube: wanted[tube] + more for tube in wanted}) if wanted else {}
    if passed:
        free = _free(turn, {key for jobs in ready.values() for _, key in jobs})
        ready = {tube: [job for job in jobs if job[1] in free] for tube, jobs in ready.items()}
    chosen: dict[int, Client] = {}
    for client in waiting:
        heads = [ready[tube] for tube in client.watched if ready.get(tube)]
        if heads:
            _, key = min(heads, key=lambda jobs: jobs[-1]).pop()
            chosen[key] = client
    return chosen


def _free(turn: Turn, keys: set[int]) -> set[int]:
    """Those that nobody has locked."""
    unknown = keys - turn.state.passed_over()
    free = set(unlocked_keys(turn.table, sorted(unknown)))
    turn.after.append(lambda: turn.state.pass_over(unknown - free))
    return free


def give_back(turn: Turn, held: Mapping[int, Hold], is_over: bool) -> None:
    """What clients held that are gone, or whose time ``is_over``."""
    claims = {key: hold.owner for key, hold in held.items()}
    change = ", timeouts = timeouts + 1" if is_over else ""
    ended = by_key.end_claims(turn.table, claims, UNHARMED, (change, []))
    if is_over:
        turn.after.append(lambda: turn.state.note_timeouts(len(ended.keys)))
    turn.after.append(lambda: turn.state.end_soon(ended.locked))
    turn.let_go(held.keys() - set(ended.locked))


def next_burial() -> int:
    """Grows from one to the next."""
    return time.time_ns()


# In this order: what a client gives back another may get in the same turn.
VERBS: dict[type[Any], Verb] = {
    commands.Put: put,
    commands.Delete: delete,
    commands.Touch: touch,
    commands.Release: release,
    commands.Bury: bury,
    commands.KickJob: kick_job,
    commands.Kick: kick,
    KickOn: kick_on,
    commands.ReserveJob: reserve_job,
}
