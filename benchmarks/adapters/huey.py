"""huey, with its SQLite storage or on Redis."""

import logging
import os
import sqlite3
from importlib.metadata import version
from typing import Any

from huey import RedisHuey, SqliteHuey
from huey.consumer_options import ConsumerConfig
from huey.storage import SqliteStorage

from benchmarks.adapters import URL_VARIABLE, Timeless
from benchmarks.marks import mark

SQLITE = "sqlite:///"
MODES: dict[str, dict[str, Any]] = {
    "default": {},
    # No line in the log for each task, no clock for periodic ones.
    "best": {"verbose": False, "periodic": False},
}


class NormalSqliteStorage(SqliteStorage):  # type: ignore[misc,unused-ignore]
    """As durable as everybody's SQLite here; its own choices are FULL and OFF."""

    def _create_connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection = super()._create_connection()
        connection.execute("PRAGMA synchronous=NORMAL")
        return connection


class Adapter(Timeless):
    """A task is deleted when it is taken, so that its completion is its run."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        url = os.environ[URL_VARIABLE]
        if url.startswith(SQLITE):
            name = url.removeprefix(SQLITE) + ".huey"
            self.huey = SqliteHuey(storage_class=NormalSqliteStorage, filename=name)
        else:
            self.huey = RedisHuey(url=url)
        self.noop = self.huey.task()(mark)

    def prepare(self) -> None:
        pass

    def fill(self, jobs: int) -> None:
        self.huey.flush()
        for number in range(jobs):
            self.noop(number)

    def work(self) -> None:
        """What its own command does."""
        config = ConsumerConfig(**MODES[self.mode])
        config.setup_logger(logging.getLogger("huey"))
        self.huey.create_consumer(**config.values).run()

    def left(self) -> int:
        return int(self.huey.pending_count())

    def versions(self) -> dict[str, str]:
        if isinstance(self.huey, SqliteHuey):
            return {"SQLite": sqlite3.sqlite_version, "huey": version("huey")}
        server = str(self.huey.storage.conn.info("server")["redis_version"])
        return {"Redis": server, "huey": version("huey"), "redis": version("redis")}
