"""Celery, on Redis, with its own command as the worker."""

import os
import sys

import celery

from benchmarks.adapters import URL_VARIABLE
from benchmarks.marks import mark
from benchmarks.redis_peer import RedisPeer, become

app = celery.Celery(broker="redis+" + os.environ[URL_VARIABLE].replace("unix:", "socket:"))
noop = app.task(name="noop")(mark)
MODES = {
    "default": (),
    # In the process itself, without gossip between workers, many messages ahead.
    "best": ("--pool=solo", "--prefetch-multiplier=64", "--without-gossip", "--without-mingle"),
}


class Adapter(RedisPeer):
    package = "celery"
    lists = ("celery",)
    # A message leaves it when its job starts, as Celery's default has it.
    hashes = ("unacked",)

    def enqueue(self, jobs: int) -> None:
        with app.producer_or_acquire() as producer:
            for number in range(jobs):
                noop.apply_async((number,), producer=producer)

    def work(self) -> None:
        call = ("celery", "-A", "benchmarks.adapters.celery", "worker", *MODES[self.mode])
        become(sys.executable, *call)
