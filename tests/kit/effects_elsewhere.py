"""Jobs in a SQLite file whose effects are in the database under test."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.db import connections

from django_dbqueue.lifecycle.table import Table, table_of
from django_dbqueue.models import Queue
from django_dbqueue.models.exactly_once import ExactlyOnceRun
from tests.queueapp.models import Effect, Transfer


@contextmanager
def empty_database(tmp_path: Path) -> Iterator[None]:
    """The alias "aside": an empty SQLite file."""
    options = {"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode=WAL"}
    config = {"ENGINE": "django.db.backends.sqlite3", "NAME": tmp_path / "aside.sqlite3"}
    connections.databases["aside"] = connections.configure_settings(
        {"default": {}, "aside": config | {"OPTIONS": options}}
    )["aside"]
    yield
    connections["aside"].close()
    del connections["aside"], connections.databases["aside"]


@contextmanager
def jobs_aside(tmp_path: Path) -> Iterator[Any]:
    """The manager of a queue table in a database of its own."""
    with empty_database(tmp_path):
        with connections["aside"].schema_editor() as editor:
            for model in (Queue, Transfer):
                editor.create_model(model)
        yield Transfer.objects.db_manager("aside")


def apart() -> Table:
    """The queue table, on the calling thread's connection, whose jobs write to "default"."""
    table = table_of(Transfer, "aside")
    return replace(table, policy=replace(table.policy, exactly_once="default"))


def claim(jobs: Any) -> Transfer:
    job: Transfer
    [job] = jobs.claim()
    return job


def once(job: Transfer, work: Callable[[], Any] | None = None) -> ExactlyOnceRun:
    return ExactlyOnceRun(apart(), job, work or job.run)


def state(job: Transfer) -> int:
    return int(Transfer.objects.using("aside").get(pk=job.pk).status)


def effects() -> list[int]:
    return list(Effect.objects.values_list("job", flat=True))
