"""procrastinate, on PostgreSQL."""

import os
from importlib.metadata import version
from typing import Any

import psycopg
from procrastinate import App, PsycopgConnector

from benchmarks.adapters import BULK, URL_VARIABLE, Result
from benchmarks.marks import mark_async

MODES: dict[str, dict[str, Any]] = {"default": {}, "best": {"concurrency": 20}}
SPAN = """
    SELECT count(*) FILTER (WHERE type = 'succeeded'),
        extract(epoch FROM max(at) FILTER (WHERE type = 'succeeded')
            - min(at) FILTER (WHERE type = 'started'))
    FROM procrastinate_events
"""


class Adapter:
    def __init__(self, mode: str) -> None:
        self.options = MODES[mode]
        self.url = os.environ[URL_VARIABLE]
        self.app = App(connector=PsycopgConnector(conninfo=self.url, max_size=20))
        # A coroutine: anything else would be run in a thread, which takes longer.
        self.noop = self.app.task(name="noop")(mark_async)
        self.connection = psycopg.connect(self.url, autocommit=True)

    def prepare(self) -> None:
        with self.app.open():
            if not self.app.check_connection():
                self.app.schema_manager.apply_schema()

    def fill(self, jobs: int) -> None:
        self.connection.execute("TRUNCATE procrastinate_jobs CASCADE")
        with self.app.open():
            for start in range(0, jobs, BULK):
                numbers = range(start, min(start + BULK, jobs))
                self.noop.batch_defer(*[{"number": number} for number in numbers])
        self.connection.execute("ANALYZE procrastinate_jobs")

    def work(self) -> None:
        self.connection.close()
        self.app.run_worker(**self.options)

    def left(self) -> int:
        sql = "SELECT count(*) FROM procrastinate_jobs WHERE status <> 'succeeded'"
        return int(self.connection.execute(sql).fetchone()[0])

    def result(self, jobs: int) -> Result:
        """By the database's clock: its triggers stamp each change of a job's status."""
        done, seconds = self.connection.execute(SPAN).fetchone()
        return Result(done, float(seconds or 0))

    def versions(self) -> dict[str, str]:
        server = self.connection.info.parameter_status("server_version")
        return {"PostgreSQL": server} | {
            name: version(name) for name in ("procrastinate", "psycopg")
        }
