"""Oban for Python, on PostgreSQL: not a backend of Django Tasks, and asynchronous throughout."""

import os
import time
from importlib.metadata import version
from typing import Any

import psycopg
import uvloop
from oban import Oban, job
from oban.cli import main
from oban.schema import install_sql

from benchmarks.adapters import BULK, URL_VARIABLE, WARM, Timeless
from benchmarks.marks import mark

# Jobs at once, and connections.
MODES = {"best": ("--queues", "default:100", "--pool-max-size", "10", "--log-level", "CRITICAL")}


@job()  # type: ignore[untyped-decorator,unused-ignore]
async def noop(number: int) -> None:
    mark(number)


class Adapter(Timeless):
    job: Any = noop

    def __init__(self, mode: str) -> None:
        self.options = MODES[mode]
        self.url = os.environ[URL_VARIABLE]
        self.connection = psycopg.connect(self.url, autocommit=True)

    def prepare(self) -> None:
        found = self.connection.execute("SELECT to_regclass('oban_jobs')").fetchone()
        if found == (None,):
            self.connection.execute(install_sql())

    def fill(self, jobs: int) -> None:
        self.enqueue_seconds("enqueue_many", jobs)
        self.connection.execute("DELETE FROM oban_jobs WHERE (args->>'number')::int < 0")
        self.connection.execute("ANALYZE oban_jobs")

    def enqueue_seconds(self, way: str, jobs: int) -> float:
        self.connection.execute("TRUNCATE oban_jobs")
        seconds: float = uvloop.run(self.seconds_of(way, jobs))
        row = self.connection.execute("SELECT count(*) FROM oban_jobs").fetchone()
        if row != (WARM + jobs,):
            raise SystemExit(f"{way}: {row} rows of {WARM + jobs} jobs")
        return seconds

    async def seconds_of(self, way: str, jobs: int) -> float:
        pool = await Oban.create_pool(self.url)
        async with Oban(pool=pool) as client:
            enqueue = self.each if way == "aenqueue" else self.in_bulk
            await enqueue(client, range(-WARM, 0))
            start = time.monotonic()
            await enqueue(client, range(jobs))
            seconds = time.monotonic() - start
        await pool.close()
        return seconds

    async def each(self, client: Oban, numbers: range) -> None:
        for number in numbers:
            await client.enqueue(self.job.new(number))

    async def in_bulk(self, client: Oban, numbers: range) -> None:
        for start in range(0, len(numbers), BULK):
            await client.enqueue_many([self.job.new(n) for n in numbers[start : start + BULK]])

    def work(self) -> None:
        """What its own command does."""
        self.connection.close()
        main(["start", "--dsn", self.url, *self.options])

    def left(self) -> int:
        sql = "SELECT count(*) FROM oban_jobs WHERE state <> 'completed'"
        row = self.connection.execute(sql).fetchone()
        return int(row[0]) if row else 0

    def versions(self) -> dict[str, str]:
        server = self.connection.info.parameter_status("server_version") or "?"
        names = ("oban", "psycopg", "uvloop")
        return {"PostgreSQL": server} | {name: version(name) for name in names}
