"""A contestant, inside its own environment: python -m benchmarks.inside ADAPTER MODE VERB [JOBS
[RATE]].

VERB: prepare, fill, work, watch, result or versions; where pick-up is measured also pace; of Django
Tasks also enqueue, enqueue_many and aenqueue. The last line of the output is the answer in JSON.
"""

import json
import sys
import time
from dataclasses import asdict
from importlib import import_module
from typing import cast

from benchmarks.adapters import WAYS, Adapter, PacedAdapter, TaskAdapter
from benchmarks.marks import from_environment

READY = "ready"
LOOK = 0.02  # seconds between looks at the marks
ASK = 0.005  # seconds between questions to the queue


def watch(adapter: Adapter, jobs: int) -> float:
    """Wait until every completion is committed; the moment when that was seen.

    The queue is asked only after all jobs have run, so that nobody else is in the worker's way.
    """
    adapter.left()  # imports and connects
    print(READY, flush=True)
    marks = from_environment()
    while marks.started < jobs:
        time.sleep(LOOK)
    while adapter.left():
        time.sleep(ASK)
    return time.monotonic()


def call(adapter: Adapter, verb: str, jobs: int, rate: float) -> object:
    match verb:
        case "prepare":
            adapter.prepare()
        case "fill":
            adapter.fill(jobs)
        case "work":
            adapter.work()
        case "pace":
            cast(PacedAdapter, adapter).pace(rate, jobs)
        case "watch":
            return watch(adapter, jobs)
        case "result":
            return asdict(adapter.result(jobs))
        case "versions":
            return adapter.versions()
        case way if way in WAYS:
            return cast(TaskAdapter, adapter).enqueue_seconds(way, jobs)
        case _:
            raise SystemExit(f"unknown verb {verb}")
    return None


def main(name: str, mode: str, verb: str, jobs: str = "0", rate: str = "0") -> None:
    adapter: Adapter = import_module(f"benchmarks.adapters.{name}").Adapter(mode)
    print(json.dumps(call(adapter, verb, int(jobs), float(rate))))


if __name__ == "__main__":
    main(*sys.argv[1:])
