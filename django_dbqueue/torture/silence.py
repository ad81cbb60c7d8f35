"""Spells in which the database does not answer the workers: they reach it through a proxy."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .database_faults import faults_for_this_database
from .proxy import Proxy, Way
from .recorder import tell

WAYS = [way for way in Way if way is not Way.PASS]
DELAY = 5.0  # seconds


@contextmanager
def behind_a_proxy(config: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Proxy | None]]:
    """The database as workers are to reach it, and the proxy; none where it has no known place."""
    place = faults_for_this_database().place(config)
    if place is None:
        yield config, None
        return
    options = {k: v for k, v in config["OPTIONS"].items() if k != "unix_socket"}
    with Proxy(place) as proxy:
        yield config | {"HOST": "127.0.0.1", "PORT": proxy.port, "OPTIONS": options}, proxy


class Silence:
    """One spell."""

    def __init__(self, proxy: Proxy, rng: random.Random) -> None:
        self.proxy = proxy
        self.way = rng.choice(WAYS)

    def begin(self) -> None:
        tell("silence", "info", on=True, way=self.way.name)
        self.proxy.be(self.way, seconds=DELAY)

    def end(self) -> None:
        self.proxy.be(Way.PASS)
        tell("silence", "info", on=False)
