"""Pausing and resuming queues: one, all of a table, or all that there are."""

from typing import Any

from ..lifecycle.table import table_of
from ..monitor.report import known_queues
from ..worker.served import Served


def pause(served: Served, seconds: float | None, reason: str) -> list[str]:
    """Stop claims from a queue of a table, or from all that are known, for some seconds, or until
    they are resumed; which."""
    names = [served.queue] if served.queue else _queues_of(served)
    for name in names:
        _manager(served).pause(name, seconds, reason)
    return names


def resume(served: Served) -> list[str]:
    """Let claims go on; which queues were named, or were paused."""
    names = [served.queue] if served.queue else sorted(_manager(served).paused_queues())
    for name in names:
        _manager(served).resume(name)
    return names


def _queues_of(served: Served) -> list[str]:
    return known_queues(table_of(served.model, served.using))


def _manager(served: Served) -> Any:
    return served.model._default_manager.using(served.using)
