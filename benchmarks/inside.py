"""A contestant, inside its own environment: python -m benchmarks.inside ADAPTER MODE VERB [JOBS].

VERB: prepare, fill, work, result or versions. The last line of the output is the answer in JSON.
"""

import json
import sys
from dataclasses import asdict
from importlib import import_module

from benchmarks.adapters import Adapter


def call(adapter: Adapter, verb: str, jobs: int) -> object:
    match verb:
        case "prepare":
            adapter.prepare()
        case "fill":
            adapter.fill(jobs)
        case "work":
            adapter.work()
        case "result":
            return asdict(adapter.result())
        case "versions":
            return adapter.versions()
        case _:
            raise SystemExit(f"unknown verb {verb}")
    return None


def main(name: str, mode: str, verb: str, jobs: str = "0") -> None:
    adapter: Adapter = import_module(f"benchmarks.adapters.{name}").Adapter(mode)
    print(json.dumps(call(adapter, verb, int(jobs))))


if __name__ == "__main__":
    main(*sys.argv[1:])
