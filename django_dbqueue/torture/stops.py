"""Telling a torture to stop: what it has started ends with it."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

STOPS = (signal.SIGTERM, signal.SIGINT)


def leave(number: int, _: object) -> None:
    """By way of the finally clauses: they end all processes, and drop the scratch database."""
    for one in STOPS:
        signal.signal(one, signal.SIG_IGN)  # a second signal would end them half-way
    sys.exit(128 + number)


@contextmanager
def stops_deferred() -> Iterator[None]:
    """What tells this process to stop meanwhile does so at the end of the block: a process that is
    just being started is known to nobody yet, and would be left behind."""
    told: list[int] = []
    handlers = {one: signal.signal(one, lambda number, _: told.append(number)) for one in STOPS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if told:
            signal.raise_signal(told[0])
