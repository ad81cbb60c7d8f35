"""A small Django project around a queue that is measured, and what such adapters share."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import dj_database_url
import django
from django.apps import apps
from django.conf import settings
from django.core.management import call_command, execute_from_command_line
from django.db import connection, models
from django.db.models.signals import post_save

from benchmarks import marks
from benchmarks.adapters import URL_VARIABLE, Result

DRIVERS = {"mysql": ("mysqlclient",), "postgresql": ("psycopg",)}
# A table that has just been filled has no statistics yet; one in use has.
ANALYZE = {"mysql": "ANALYZE TABLE", "postgresql": "ANALYZE"}


@dataclass(frozen=True)
class Mode:
    """A worker's command, as after ``manage.py``, settings of its database, and others."""

    command: tuple[str, ...]
    database: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    durability: str = "NORMAL"


class DjangoProject:
    """The base of adapters whose queue is a Django app: all get the same settings."""

    apps: tuple[str, ...]
    package: str
    model: str
    modes: Mapping[str, Mode]

    def __init__(self, mode: str) -> None:
        self.mode = self.modes[mode]
        if mode.endswith(marks.LETS_GO):
            marks.mark = marks.mark_and_let_go
        settings.configure(
            DATABASES={"default": database(self.mode.durability) | dict(self.mode.database)},
            DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
            INSTALLED_APPS=list(self.apps),
            SECRET_KEY="benchmarks",
            USE_TZ=True,
            **self.mode.settings,
        )
        django.setup()

    @property
    def table(self) -> Any:
        return apps.get_model(self.model)

    def prepare(self) -> None:
        call_command("migrate", run_syncdb=True, verbosity=0)

    @property
    def filled(self) -> list[Any]:
        """The models that enqueueing writes to."""
        return [self.table]

    def fill(self, jobs: int) -> None:
        self.empty()
        self.enqueue(jobs)
        if connection.vendor not in ANALYZE:
            return
        with connection.cursor() as cursor:
            for model in self.filled:
                name = connection.ops.quote_name(model._meta.db_table)
                cursor.execute(f"{ANALYZE[connection.vendor]} {name}")

    def empty(self) -> None:
        call_command("flush", interactive=False, verbosity=0)

    def enqueue(self, jobs: int) -> None:
        raise NotImplementedError

    def pace(self, rate: float, jobs: int) -> None:
        """Enqueue one by one, at random moments; note each commit."""
        committed = marks.sent()

        def note(instance: Any, **_: object) -> None:
            committed.add(instance.number)

        post_save.connect(note)
        for number, seconds in enumerate(marks.random_pauses(rate, jobs)):
            time.sleep(seconds)
            self.table.objects.create(number=number)

    def span(self, rows: models.QuerySet[Any], start: str, end: str) -> Result:
        """The result by the finished rows' own timestamps."""
        found = rows.aggregate(first=models.Min(start), last=models.Max(end))
        if found["first"] is None:
            return Result(0, None)
        return Result(rows.count(), (found["last"] - found["first"]).total_seconds())

    def command(self) -> tuple[str, ...]:
        return self.mode.command

    def work(self) -> None:
        execute_from_command_line(["manage.py", *self.command()])

    def versions(self) -> dict[str, str]:
        packages = (self.package, "Django", *DRIVERS.get(connection.vendor, ()))
        connection.ensure_connection()
        server = ".".join(str(part) for part in connection.get_database_version())
        kind = getattr(connection, "display_name", connection.vendor)
        return {kind: server} | {name: version(name) for name in packages}


def database(durability: str = "NORMAL") -> dict[str, Any]:
    """The database that the environment names, with the options that both sides recommend;
    ``durability`` is SQLite's ``synchronous``."""
    config: dict[str, Any] = {**dj_database_url.parse(os.environ[URL_VARIABLE])}
    options = config.setdefault("OPTIONS", {})
    if config["ENGINE"].endswith("sqlite3"):
        options["transaction_mode"] = "IMMEDIATE"
        options["timeout"] = 20
        options["init_command"] = f"PRAGMA journal_mode=WAL; PRAGMA synchronous={durability};"
    elif config["ENGINE"].endswith("mysql"):
        options["charset"] = "utf8mb4"
    return config
