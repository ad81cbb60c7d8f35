"""The commands that change jobs, each for all clients that give it in one turn."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from ..fields import DbNow
from ..lifecycle import by_key
from ..lifecycle.admission import is_blocked, wanted
from ..lifecycle.by_key import Done
from ..lifecycle.claim_end import RetryDecision
from ..lifecycle.limits import is_bounded
from ..lifecycle.policy import MAX_SECONDS
from ..states import Status
from . import commands, replies, rows
from .joint import Given, Turn, Verb
from .models import TubeJob
from .reserving import reserve_job
from .rows import ALLOWANCE, ID_MAX
from .state import Client

KICKED_AT_ONCE = 500
INSERT_MAX = 2**20  # bytes in one statement, but for a body that is larger
ROW_BYTES, ROWS_MAX = 500, 1000  # what a row takes besides its body, and rows of one statement
KICKED = ", kicks = kicks + 1", ()


def put(turn: Turn, given: Given) -> None:
    given = _unlocked(turn, given)
    if not given:
        return
    jobs = [_row(client, command) for client, command in given]
    for some in _statements(jobs):
        TubeJob.objects.using(turn.table.connection.alias).bulk_create(some)
    for (client, _), job in zip(given, jobs, strict=True):
        turn.answer(client, replies.line("INSERTED", job.pk))
    turn.after.append(lambda: turn.state.note_put([client for client, _ in given]))
    delays = [command.delay for _, command in given if command.delay]
    if delays:
        turn.after.append(lambda: turn.state.note_delayed(min(delays)))


def _unlocked(turn: Turn, given: Given) -> Given:
    """Without those into tubes whose room somebody has locked: to wait for it would hold up
    everybody."""
    if not is_bounded(TubeJob):
        return given
    places = wanted(TubeJob, [(client.used, command.priority) for client, command in given])
    locked = {one.queue for one in places if is_blocked(turn.table, one)}
    turn.locked += [one for one in given if one[0].used in locked]
    return [one for one in given if one[0].used not in locked]


def _statements(jobs: Sequence[TubeJob]) -> Iterator[list[TubeJob]]:
    """As many jobs as one INSERT should hold: MariaDB breaks the connection where it is larger than
    ``max_allowed_packet``."""
    some: list[TubeJob] = []
    size = 0
    for job in jobs:
        more = ROW_BYTES + len(job.queue) + len(job.body)
        if some and (size + more > INSERT_MAX or len(some) == ROWS_MAX):
            yield some
            some, size = [], 0
        some.append(job)
        size += more
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
    # One that was committed in between is in no tube that we know.
    known = [tubes[key] for key in deleted.keys if key in tubes]
    turn.after.append(lambda: turn.state.note_deleted(known))
    turn.let_go(deleted.keys)
    turn.end(held, kept=deleted.locked)


def touch(turn: Turn, given: Given) -> None:
    wanted = {command.id: client for client, command in given}
    held = turn.held(wanted)
    claims = {key: hold.owner for key, hold in held.items()}
    touched = by_key.touch(turn.table, claims, ALLOWANCE)
    turn.answer_each(given, touched, replies.TOUCHED)
    begun = {key: held[key] for key in touched.keys}
    turn.after.append(lambda: turn.state.begin_again(begun))
    turn.end(held, kept=[*touched.keys, *touched.locked])


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
    turn.end(held, kept=released.locked)


def bury(turn: Turn, given: Given) -> None:
    wanted = {command.id: client for client, command in given}
    held = turn.held(wanted)
    buried = Done()
    for _, command in given:
        if command.id not in held:
            continue
        claims = {command.id: held[command.id].owner}
        change = ", priority = %s, buries = buries + 1", [command.priority]
        decision = RetryDecision(Status.BURIED, 0, "buried")
        buried.add(by_key.end_claims(turn.table, claims, decision, change))
    turn.answer_each(given, buried, replies.BURIED)
    turn.end(held, kept=buried.locked)


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
