"""A worker's life of a job in one thread, so that one clock tells the cost of each stage."""

import threading
import time
from collections.abc import Callable
from typing import Any

from django_dbqueue.lifecycle import claim
from django_dbqueue.lifecycle.table import table_of
from django_dbqueue.worker.buffer import Buffer, Item
from django_dbqueue.worker.connections import watch_connections
from django_dbqueue.worker.finisher import Finisher
from django_dbqueue.worker.runner import Runner
from django_dbqueue.worker.session import Session
from django_dbqueue.worker.shared_memory import SharedMemory

BATCH = 500


def stages(model: type[Any], fill: Callable[[int], object], jobs: int, rounds: int) -> Any:
    """Microseconds per job, by stage; ``fill`` empties the table and enqueues so many jobs."""
    thread = Thread(model)
    least: dict[str, float] = {}
    for _ in range(rounds):
        fill(jobs)
        spent = thread.drain(jobs)
        if (done := model.objects.done().count()) != jobs:
            raise RuntimeError(f"{done} of {jobs} jobs are done")
        for stage, seconds in spent.items():
            least[stage] = min(least.get(stage, seconds), seconds)
    return {stage: seconds / jobs * 1e6 for stage, seconds in least.items()}


class Thread:
    """All of a child's threads in one."""

    def __init__(self, model: type[Any]) -> None:
        watch_connections()
        self.table = table_of(model, "default")
        self.buffer, self.shared = Buffer(1), SharedMemory(1)
        self.finisher = Finisher(Session({"default"}), BATCH, lambda: None)
        stop = threading.Event()
        self.runner = Runner(0, self.buffer, self.finisher, self.shared, 10.0, stop, lambda: None)
        self.claims = 0

    def drain(self, jobs: int) -> dict[str, float]:
        """CPU seconds by stage."""
        spent = dict.fromkeys(("claim and build", "run", "complete"), 0.0)
        while jobs > 0:
            moments = [time.process_time()]
            for stage in (self.claim, self.run, self.finisher.flush):
                stage()
                moments.append(time.process_time())
            for name, start, end in zip(spent, moments, moments[1:], strict=False):
                spent[name] += end - start
            jobs -= BATCH
        return spent

    def claim(self) -> None:
        self.claims += 1
        now = time.monotonic()
        self.shared.beat("default", now, 1)
        owner = f"stages.{id(self)}.{self.claims}"
        jobs = claim.claim(self.table, "default", BATCH, owner)
        self.buffer.put([Item(self.table, owner, [job], now, 1) for job in jobs])

    def run(self) -> None:
        for _ in range(len(self.buffer)):
            item = self.buffer.get()
            assert item is not None
            self.runner.take(item)
