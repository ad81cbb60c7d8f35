"""RQ, on Redis, with its own command as the worker."""

import sys

from rq import Queue

from benchmarks.adapters import BULK
from benchmarks.marks import mark
from benchmarks.redis_peer import RedisPeer, become

MODES = {
    "default": (),
    # No fork for each job, and nothing said about it.
    "best": ("--worker-class", "rq.worker.SimpleWorker", "--quiet"),
}


class Adapter(RedisPeer):
    package = "rq"
    lists = ("rq:queue:default", "rq:queue:default:intermediate")
    sorted_sets = ("rq:wip:default",)

    def enqueue(self, jobs: int) -> None:
        queue = Queue(connection=self.client)
        for start in range(0, jobs, BULK):
            numbers = range(start, min(start + BULK, jobs))
            queue.enqueue_many([Queue.prepare_data(mark, (number,)) for number in numbers])

    def work(self) -> None:
        become(sys.executable, "rq.cli", "worker", "--url", self.url, *MODES[self.mode])
