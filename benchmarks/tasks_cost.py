"""Client CPU per no-op task of Django Tasks in one thread, in microseconds, on SQLite.

    .venv-peers/newest-dbqueue_tasks/bin/python -m benchmarks.tasks_cost best|default

The least of several rounds, since other programs on the machine only ever add to it. ``default`` is
with Django's own lines in the log, which ``best`` leaves out.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.adapters import URL_VARIABLE, WARM
from benchmarks.adapters.dbqueue_tasks import Adapter
from benchmarks.marks import VARIABLE, Marks

ROUNDS, ONE_BY_ONE, MANY = 9, 500, 3_000


def least(adapter: Adapter, enqueue: Callable[[int], None], jobs: int) -> float:
    spent = []
    for _ in range(ROUNDS):
        adapter.empty()
        enqueue(WARM)
        start = time.process_time()
        enqueue(jobs)
        spent.append((time.process_time() - start) / jobs * 1e6)
    return min(spent)


def costs(mode: str) -> dict[str, float]:
    adapter = Adapter(mode)
    adapter.prepare()
    # Their imports need a Django that is set up.
    import_module("django_dbqueue.worker.job_signals").subscribe()
    one_thread: Any = import_module("benchmarks.one_thread")
    return {
        "enqueue()": least(adapter, adapter.each, ONE_BY_ONE),
        "enqueue_many()": least(adapter, adapter.in_bulk, MANY),
        **one_thread.stages(adapter.table, adapter.fill, MANY, ROUNDS),
    }


def main(mode: str = "best") -> None:
    with tempfile.TemporaryDirectory(prefix="dbqueue-bench-") as folder:
        os.environ[URL_VARIABLE] = f"sqlite:///{folder}/bench.sqlite3"
        os.environ[VARIABLE] = f"{folder}/marks"
        Marks.create(Path(folder) / "marks", MANY + WARM)
        for stage, cost in costs(mode).items():
            print(f"{mode}, {stage}: {cost:.1f} µs")


if __name__ == "__main__":
    main(*sys.argv[1:])
