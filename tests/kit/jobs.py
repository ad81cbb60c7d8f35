"""Jobs in each state, what the database holds of them, and threads that change them."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

from django.db import connection, connections
from django.db.models import Model, QuerySet

from django_dbqueue import events
from django_dbqueue.fields import DbNow
from django_dbqueue.lifecycle import reap
from django_dbqueue.lifecycle.table import LIFECYCLE_COLUMNS, Table, table_of
from django_dbqueue.models import Job
from django_dbqueue.testing.reaping import by_clock
from django_dbqueue.worker.reaper import Reaper
from tests.kit.connections import other_connection
from tests.queueapp.models import Note


def fresh(row: Model) -> Any:
    """The row as the database has it now."""
    return type(row)._base_manager.get(pk=row.pk)


def claim_one(model: Any = Note, **options: Any) -> Any:
    [job] = model.objects.claim(**options)
    return job


def claimed(model: Any = Note, **columns: Any) -> Any:
    """A job in the hands of this test."""
    model.objects.create(**columns)
    return claim_one(model, queue=columns.get("queue", "default"))


def done(model: Any = Note, **columns: Any) -> Any:
    job = claimed(model, **columns)
    job.complete()
    return fresh(job)


def buried(model: Any = Note, **columns: Any) -> Any:
    job = claimed(model, **columns)
    job.bury("for the test")
    return fresh(job)


def table(model: Any = Note) -> Table:
    return table_of(model, "default")


LOCK = {
    "sqlite": ("SELECT 1", "BEGIN IMMEDIATE", "ROLLBACK"),  # the whole database
    "postgresql": ("BEGIN", "LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", "COMMIT"),
    "mysql": ("SELECT 1", "LOCK TABLES {} WRITE", "UNLOCK TABLES"),
}


@contextmanager
def table_locked(model: Any) -> Iterator[None]:
    """A connection of its own keeps the table from everybody."""
    begin, lock, end = LOCK[connection.vendor]
    with closing(other_connection()) as other, other.cursor() as cursor:
        cursor.execute(begin)
        cursor.execute(lock.format(model._meta.db_table))
        try:
            yield
        finally:
            cursor.execute(end)


@contextmanager
def table_gone(model: Any) -> Iterator[None]:
    """Somebody has renamed it."""
    name = connection.ops.quote_name(model._meta.db_table)
    away = connection.ops.quote_name(f"{model._meta.db_table}_away")
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {name} RENAME TO {away}")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE {away} RENAME TO {name}")


@contextmanager
def column_gone(model: Any, column: str) -> Iterator[None]:
    """A migration has renamed it."""
    quote = connection.ops.quote_name
    rename = f"ALTER TABLE {quote(model._meta.db_table)} RENAME COLUMN {{}} TO {{}}"
    names = quote(column), quote(f"{column}_away")
    with connection.cursor() as cursor:
        cursor.execute(rename.format(*names))
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(rename.format(*reversed(names)))


@contextmanager
def row_locked(job: Job) -> Iterator[None]:
    """A transaction of somebody's holds the row; on SQLite that is the whole database."""
    with closing(other_connection()) as other, other.cursor() as cursor:
        cursor.execute("BEGIN IMMEDIATE" if connection.vendor == "sqlite" else "BEGIN")
        if connection.vendor != "sqlite":
            name = other.ops.quote_name(job._meta.db_table)
            cursor.execute(f"SELECT id FROM {name} WHERE id = %s FOR UPDATE", [job.pk])
        try:
            yield
        finally:
            cursor.execute("ROLLBACK")


WAITING = {
    "postgresql": (
        "SELECT COUNT(*) FROM pg_stat_activity "
        "WHERE wait_event_type = 'Lock' AND datname = current_database()"
    ),
    "mysql": (
        "SELECT COUNT(*) FROM information_schema.innodb_trx "
        "JOIN information_schema.processlist ON trx_mysql_thread_id = id "
        "WHERE trx_state = 'LOCK WAIT' AND db = DATABASE()"
    ),
}


def waiting_for_locks() -> int:
    """How many sessions of this database wait for a row that somebody has locked."""
    with connection.cursor() as cursor:
        cursor.execute(WAITING[connection.vendor])
        return int(cursor.fetchone()[0])


def forget_tables() -> None:
    """What was worked out of the models and the settings is worked out anew."""
    vars(connections["default"]).pop("dbqueue_tables", None)


def overwrite(job: Job, **columns: Any) -> None:
    """Write what only the lifecycle may write: time passes, another worker comes."""
    assert job.pk is not None, "Django's own bulk_create() tells no keys on MySQL"
    QuerySet(type(job)).filter(pk=job.pk).update(**columns)


def aged(job: Job, seconds: float, column: str = "created_at") -> None:
    overwrite(job, **{column: DbNow(-seconds)})


def steal(job: Job) -> None:
    """Another worker has the job now."""
    overwrite(job, owner="another.1")


def lifecycle_of(job: Job) -> dict[str, Any]:
    """All that the database holds of a job's life."""
    [values] = QuerySet(type(job)).filter(pk=job.pk).values(*sorted(LIFECYCLE_COLUMNS))
    return values


def in_thread(work: Callable[[], Any]) -> Any:
    """Run something on a connection of its own, to the end; its result or its error."""
    return start(work).result()


class Started(threading.Thread):
    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self.work = work
        self.value: Any = None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.value = self.work()
        except BaseException as error:
            self.error = error
        finally:
            connections.close_all()

    def result(self, seconds: float = 60) -> Any:
        self.join(seconds)
        assert not self.is_alive(), f"{self.work} still runs after {seconds} s"
        if self.error:
            raise self.error
        return self.value


def start(work: Callable[[], Any]) -> Started:
    return Started(work)


def start_all(*works: Callable[[], Any]) -> list[Any]:
    """Run things at the same moment, each on its own connection; their results."""
    gate = threading.Barrier(len(works))

    def after_gate(work: Callable[[], Any]) -> Any:
        gate.wait(20)
        return work()

    threads = [start(partial(after_gate, work)) for work in works]
    return [thread.result() for thread in threads]


def reaper(*models: Any) -> Reaper:
    tables = [table(model) for model in models or [Note]]
    return Reaper(tables, 10, events.reaped, silent=by_clock(10))


def reap_overdue(table: Table) -> int:
    """How many claims were ended because their time is over."""
    return len(reap.end_overdue(table, reap.find_overdue(table)))


def reap_owner(table: Table, prefix: str, **known: Any) -> int:
    """How many jobs of an owner were given back; ``started`` and ``overdue`` name keys."""
    waited = known.pop("waited", set())
    traces = {name: {key: reap.Trace() for key in keys} for name, keys in known.items()}
    return len(reap.reap_owner(table, prefix, **traces, waited=waited))
