"""What a job's concurrency key has to do with its waiting."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from ..lifecycle.execute import rows
from ..lifecycle.key_facts import count_claimed, find_heads
from ..lifecycle.keys import BLOCK, FAIL, Rule, rule_in
from ..states import Status
from .facts import Facts


class Key(NamedTuple):
    name: str
    rule: Rule


def key_of(facts: Facts) -> Key | None:
    """The concurrency key of a job in its queue table, if it has one."""
    table = facts.table
    if not table.takes_keys:
        return None
    found = rows(
        table.connection,
        f"SELECT concurrency_key, concurrency_limit, key_order FROM {table.by_key} "
        f"WHERE {table.pk} = %s AND concurrency_key IS NOT NULL",
        [facts.key],
    )
    if not found:
        return None
    name, limit, order = found[0]
    return Key(str(name), rule_in(table, facts.queue, limit, order))


def of_key(facts: Facts, key: Key) -> Iterator[str]:
    """One sentence: who has the key, or comes before."""
    claimed = count_claimed(facts.table, [key.name]).get(key.name, 0)
    if claimed >= key.rule.limit:
        yield f"It waits for its key {key.name}: {claimed} of {key.rule.limit} run."
    elif key.rule.is_fifo and (before := _before(facts, key)):
        yield before
    elif facts.status == Status.DELAYED:
        yield f"Its key {key.name} is free: it becomes ready within seconds."
    else:
        yield f"Its key {key.name} is free: {claimed} of {key.rule.limit} run."


def _before(facts: Facts, key: Key) -> str:
    """Which job of the key comes before this one, in order."""
    heads = find_heads(facts.table, [key.name])[key.name]
    order, me = key.rule.order, facts.key
    if order in (BLOCK, FAIL) and _is_lower(heads.buried, me):
        then = "kick or cancel that one" if order == BLOCK else "so this one will be, too"
        return f"Job {heads.buried} of its key {key.name} comes before it, and is buried: {then}."
    first = heads.first(order)
    if _is_lower(first, me):
        return f"It waits for its turn by its key {key.name}: job {first} comes before it."
    return ""


def _is_lower(key: Any, than: Any) -> bool:
    return key is not None and key < than
