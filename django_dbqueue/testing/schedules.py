"""What other apps do when the time comes: those whose ``dbqueue_testing`` has ``begin``, ``fire``
and ``due_in``, each for the alias of a database."""

from collections.abc import Iterable, Iterator
from typing import Any

from .targets import hooks


def begin(aliases: Iterable[str]) -> None:
    """A worker starts."""
    for hook, alias in _of_time(aliases):
        hook.begin(alias)


def fire(aliases: Iterable[str]) -> None:
    """Enqueue what is due."""
    for hook, alias in _of_time(aliases):
        hook.fire(alias)


def due_in(aliases: Iterable[str]) -> float | None:
    """Seconds until something is; None where nothing will be."""
    waits = [hook.due_in(alias) for hook, alias in _of_time(aliases)]
    return min((one for one in waits if one is not None), default=None)


def _of_time(aliases: Iterable[str]) -> Iterator[tuple[Any, str]]:
    return ((hook, alias) for hook in hooks() if hasattr(hook, "fire") for alias in aliases)
