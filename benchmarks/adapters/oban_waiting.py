"""Oban for Python, with jobs that wait for a second."""

import asyncio

from oban import job

from benchmarks.adapters import oban
from benchmarks.marks import mark

oban.MODES["coroutines"] = (
    *("--queues", "default:1000", "--pool-max-size", "10", "--log-level", "CRITICAL"),
)


@job()  # type: ignore[untyped-decorator,unused-ignore]
async def wait(number: int) -> None:
    mark(number)
    await asyncio.sleep(1)


class Adapter(oban.Adapter):
    job = wait
