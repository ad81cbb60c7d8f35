"""dramatiq, on Redis, with its own command as the worker; one process, as everybody here."""

import os
import sys

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from benchmarks.adapters import URL_VARIABLE
from benchmarks.marks import mark
from benchmarks.redis_peer import RedisPeer, become

broker = RedisBroker(url=os.environ[URL_VARIABLE])
dramatiq.set_broker(broker)
noop = dramatiq.actor(mark)
MODES = {"default": (), "best": ("--threads", "2")}


class Adapter(RedisPeer):
    package = "dramatiq"
    # A message stays here until it is acknowledged.
    hashes = ("dramatiq:default.msgs",)

    def enqueue(self, jobs: int) -> None:
        for number in range(jobs):
            noop.send(number)

    def work(self) -> None:
        if self.mode == "best":
            os.environ.update(dramatiq_queue_prefetch="256")
        call = ("benchmarks.adapters.dramatiq", "--processes", "1", *MODES[self.mode])
        become(sys.executable, "dramatiq", *call)
