"""What the adapters of the queues on Redis share."""

import os
from collections.abc import Sequence
from importlib.metadata import version

import redis

from benchmarks.adapters import URL_VARIABLE, Timeless


class RedisPeer(Timeless):
    """The base of adapters whose queue is in Redis."""

    package: str
    # Of these, by kind, any entry is a job that is not done.
    lists: Sequence[str] = ()
    hashes: Sequence[str] = ()
    sorted_sets: Sequence[str] = ()

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.url = os.environ[URL_VARIABLE]
        self.client = redis.Redis.from_url(self.url)

    def prepare(self) -> None:
        pass

    def fill(self, jobs: int) -> None:
        self.client.flushall()
        self.enqueue(jobs)

    def enqueue(self, jobs: int) -> None:
        raise NotImplementedError

    def left(self) -> int:
        """All counted in one transaction: a job on its way from one to the other is in one."""
        with self.client.pipeline() as together:
            for name in self.lists:
                together.llen(name)
            for name in self.hashes:
                together.hlen(name)
            for name in self.sorted_sets:
                together.zcard(name)
            return sum(together.execute())

    def versions(self) -> dict[str, str]:
        server = str(self.client.info("server")["redis_version"])
        return {"Redis": server, self.package: version(self.package), "redis": version("redis")}


def become(python: str, *arguments: str) -> None:
    """Replace this process by a peer's own command, of the same environment."""
    os.execv(python, [python, "-m", *arguments])
