"""What a job's concurrency key has to do with its waiting."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from django.utils.translation import gettext as _

from ..lifecycle.execute import rows
from ..lifecycle.key_facts import count_claimed, find_heads
from ..lifecycle.keys import BLOCK, FAIL, Rule, rule_in
from ..states import Status
from .facts import Facts

MASK = "********"  # in place of a key that is not to be told


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
    values = {"key": _shown(facts, key), "running": claimed, "limit": key.rule.limit}
    if claimed >= key.rule.limit:
        yield _("It waits for its key %(key)s: %(running)s of %(limit)s run.") % values
    elif key.rule.is_fifo and (before := _before(facts, key)):
        yield before
    elif facts.status == Status.DELAYED:
        yield _("Its key %(key)s is free: it becomes ready within seconds.") % values
    else:
        yield _("Its key %(key)s is free: %(running)s of %(limit)s run.") % values


def _shown(facts: Facts, key: Key) -> str:
    return MASK if "concurrency_key" in facts.hidden else key.name


def _before(facts: Facts, key: Key) -> str:
    """Which job of the key comes before this one, in order."""
    heads = find_heads(facts.table, [key.name])[key.name]
    order, me = key.rule.order, facts.key
    if order in (BLOCK, FAIL) and _is_lower(heads.buried, me):
        then = _(
            "Job %(job)s of its key %(key)s comes before it, and is buried: so this one will be, "
            "too."
        )
        if order == BLOCK:
            then = _(
                "Job %(job)s of its key %(key)s comes before it, and is buried: kick or cancel "
                "that one."
            )
        return then % {"job": heads.buried, "key": _shown(facts, key)}
    first = heads.first(order)
    if _is_lower(first, me):
        text = _("It waits for its turn by its key %(key)s: job %(job)s comes before it.")
        return text % {"key": _shown(facts, key), "job": first}
    return ""


def _is_lower(key: Any, than: Any) -> bool:
    return key is not None and key < than
