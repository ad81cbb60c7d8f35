"""Jobs that clients get, and those that come back from them."""

from collections import Counter
from collections.abc import Mapping, Sequence

from ..lifecycle import by_key
from ..lifecycle.by_key import Done
from ..lifecycle.claim_end import UNHARMED
from ..lifecycle.execute import unlocked_keys
from ..states import Status
from . import replies, rows
from .joint import Given, Turn
from .rows import ALLOWANCE, ID_MAX
from .state import Client, Hold

PASSED_MAX = 1000  # locked jobs of a tube behind which one looks for others
RESERVED = ", reserves = reserves + 1", ()
READY_DELAYED_OR_BURIED = (Status.READY, Status.DELAYED, Status.BURIED)


def reserve_job(turn: Turn, given: Given) -> None:
    wanted = {command.id: client for client, command in given}
    owner, keys = turn.next_owner(), [key for key in wanted if key <= ID_MAX]
    sources = READY_DELAYED_OR_BURIED
    taken = by_key.claim(turn.table, keys, owner, sources, ALLOWANCE, RESERVED)
    jobs = rows.taken(turn.table, taken.keys) if taken.keys else []
    for job in jobs:
        if job.has_expired:
            turn.expire(owner, job)
        else:
            turn.reserved(wanted.pop(job.id), owner, job)
    others = [(client, command) for client, command in given if command.id in wanted]
    turn.answer_each(others, Done([], taken.locked), replies.NOT_FOUND)


def reserve(turn: Turn, waiting: Sequence[Client]) -> None:
    """Give each client that waits the job that comes first in the tubes that it watches."""
    paused = turn.state.paused()
    tubes = Counter(tube for client in waiting for tube in client.watched if tube not in paused)
    names, is_last = turn.state.part_of(tubes)
    chosen = _chosen(turn, waiting, {name: tubes[name] for name in names})
    # They have not seen all that they may get.
    missing = set() if is_last else set(waiting)
    if not chosen:
        turn.after.append(lambda: turn.state.note_missed(missing))
        return
    owner = turn.next_owner()
    taken = by_key.claim(turn.table, list(chosen), owner, allowance=ALLOWANCE, change=RESERVED)
    for job in rows.taken(turn.table, taken.keys) if taken.keys else []:
        if job.has_expired:
            turn.expire(owner, job)
        else:
            turn.reserved(chosen.pop(job.id), owner, job)
    turn.after.append(lambda: turn.state.pass_over(taken.locked))
    turn.after.append(lambda: turn.state.note_missed(missing | set(chosen.values())))


def _chosen(turn: Turn, waiting: Sequence[Client], wanted: Mapping[str, int]) -> dict[int, Client]:
    """By key, who gets which job; who has waited the longest chooses first. Those that somebody has
    locked are passed over."""
    passed = turn.state.passed
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
    locked = {key: held[key] for key in ended.locked}
    turn.after.append(lambda: turn.state.end_soon(locked))
    turn.end(held, kept=locked)
