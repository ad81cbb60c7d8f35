"""parked -> ready, when a claim of a concurrency key has ended.

A wake-up that is lost, as by a kill between two commits, is made up for by ``wake_forgotten``,
which every reaper calls every second.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from ..states import CLAIMABLE, HELD, Status
from .enqueue import notify_workers
from .execute import rows, try_once, unlocked_keys
from .key_facts import count_claimed, find_heads, keys_of, parked_keys, with_parked
from .keys import PARKED, Rule, rule_in
from .table import Table
from .unlocked import change_unlocked

WOKEN_MAX = 20  # jobs of one key at once
KEYS_MAX = 200  # looked at in one pass


@contextmanager
def ending_claims(
    table: Table, keys: Sequence[Any], jobs: Sequence[Any] | None = None
) -> Iterator[None]:
    """Within, the claims of these rows are ended, or rows leave the table: then others of their
    concurrency keys are woken, in somebody's transaction once it commits.

    ``jobs``: the instances, where there are some, as the claim made them.
    """
    if not table.takes_keys or not keys:
        yield
        return
    if jobs is not None:
        names = sorted({job.concurrency_key for job in jobs} - {None})
    else:
        names = keys_of(table, keys)  # before: they may be deleted
    yield
    if not names:
        return
    connection = table.connection
    if connection.in_atomic_block:
        connection.on_commit(partial(wake, table, names), robust=True)
    elif connection.get_autocommit():
        wake(table, names)
    # Else nobody will tell of the commit, and a reaper has to find them.


def wake(table: Table, names: Sequence[str], *, is_sure: bool = False) -> int:
    """Make ready what may be claimed by now of these concurrency keys; how many jobs.

    Of those that are ready already it is believed that they are claimed soon, unless ``is_sure``.
    Others are woken instead of those whose rows somebody has locked.
    """
    states = (HELD,) if is_sure else (HELD, CLAIMABLE)
    sql = f"UPDATE {table.by_key} SET status = {Status.READY:d} WHERE {PARKED}"
    connection, count = table.connection, 0
    for is_careful in (False, True):
        found = try_once(connection, partial(_wanted, table, names, states, is_careful))
        if not found:
            break
        held: set[Any] = set()
        count += change_unlocked(table, sql, [], found, held, is_patient=False)
        if not held:
            break
    if count:
        notify_workers(connection, [Status.READY])
    return count


def wake_forgotten(table: Table, after: str = "") -> tuple[int, str]:
    """Wake what waits though nothing of its key is claimed; how many jobs, and the key from which
    the next pass goes on."""
    names = parked_keys(table, after, KEYS_MAX)
    last = names[-1] if len(names) == KEYS_MAX else ""
    return (wake(table, names, is_sure=True) if names else 0), last


def _wanted(
    table: Table, names: Sequence[str], states: Sequence[str], is_careful: bool
) -> list[Any]:
    """The raw keys of jobs that may be claimed next, of all of the keys."""
    waiting = with_parked(table, names)
    under_way = count_claimed(table, waiting, states)
    found = (_next(table, name, under_way.get(name, 0), is_careful) for name in waiting)
    return [pk for of_one in found for pk in of_one]


def _next(table: Table, name: str, under_way: int, is_careful: bool) -> list[Any]:
    """Those of one key; ``is_careful``: some are locked, which is looked at."""
    sql = f"{_own_rules(table)} WHERE {PARKED} AND concurrency_key = %s"
    order = f"ORDER BY priority, {table.pk} LIMIT {WOKEN_MAX}"
    parked = rows(table.connection, f"{sql} {order}", [name])
    rules = {pk: rule_in(table, *own) for pk, *own in parked}
    if is_careful:
        free = set(unlocked_keys(table, list(rules)))
        rules = {pk: rule for pk, rule in rules.items() if pk in free}
    found: list[Any] = []
    for pk, rule in rules.items():
        if rule.is_fifo:
            return found or ([] if under_way else _first_in_order(table, name, rules))
        if under_way + len(found) < rule.limit:
            found.append(pk)
    return found


def _first_in_order(table: Table, name: str, rules: Mapping[Any, Rule]) -> list[Any]:
    """The lowest parked id, unless a claim that meets it would park it again: it judges by the rule
    of its row."""
    heads = find_heads(table, [name])[name]
    rule = rules.get(heads.parked)
    if rule is None:
        sql = f"{_own_rules(table)} WHERE {table.pk} = %s"
        for _, *own in rows(table.connection, sql, [heads.parked]):
            rule = rule_in(table, *own)
    if rule is None:
        return []
    is_next = not rule.is_fifo or heads.first(rule.order) == heads.parked
    return [heads.parked] if is_next or heads.dooms(heads.parked, rule.order) else []


def _own_rules(table: Table) -> str:
    return f"SELECT {table.pk}, queue, concurrency_limit, key_order FROM {table.name}"
