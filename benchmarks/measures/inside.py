"""In a Django project of its own: python -m benchmarks.measures.inside MODE VERB [NUMBER ...].

VERB: fill, pace, enqueue, statements, stages, workers, server, prepare, empty, burst. The last line
of the output is the answer in JSON.
"""

import json
import sys
import time
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

from django.db import connection, transaction
from django.test import override_settings

from benchmarks.adapters.dbqueue import Adapter
from django_dbqueue.dialects.postgresql_notify import RECHECK_SECONDS

BULK = 1000
NAMES = "queue, priority, status, attempts, crashes, losses, errors, number"


def fill(adapter: Adapter, jobs: str) -> None:
    adapter.fill(int(jobs))


def pace(adapter: Adapter, rate: str, jobs: str) -> None:
    """Enqueue one by one, at random moments; note each commit."""
    adapter.pace(float(rate), int(jobs))


def enqueue(adapter: Adapter, rounds: str, jobs: str) -> dict[str, list[float]]:
    """Microseconds per row, round by round, of several ways to insert: so many rows one by one, ten
    times as many in bulk, a tenth of them with pauses."""
    ways: dict[str, Any] = {
        "plain": one_by_one,
        "ours": one_by_one,
        "bare": bare,
        "bulk": bulk,
        "made": made,
    }
    ways["many"] = many
    if connection.vendor == "postgresql":
        ways |= {"copy": copy, "silent": silent, "rare": rare, "rare silent": rare_silent}
    found: dict[str, list[float]] = {way: [] for way in ways}
    plain = adapter.table._meta.apps.get_model("noop.Plain")
    for _ in range(int(rounds)):
        adapter.empty()
        for way, insert in ways.items():
            model = plain if way == "plain" else adapter.table
            rows = int(int(jobs) * ROWS.get(insert, 10))
            began = time.perf_counter()
            seconds = insert(model, rows) or time.perf_counter() - began
            found[way].append(seconds / rows * 1e6)
    return found


def one_by_one(model: Any, jobs: int) -> None:
    for number in range(jobs):
        model.objects.create(number=number)


def silent(model: Any, jobs: int) -> None:
    """The same without NOTIFY."""
    with override_settings(DBQUEUE={"NOTIFY": False}):
        one_by_one(model, jobs)


def rare(model: Any, jobs: int) -> float:
    """The seconds of jobs that are made so seldom that each of them notifies."""
    seconds = 0.0
    for number in range(jobs):
        time.sleep(1.2 * RECHECK_SECONDS)
        began = time.perf_counter()
        model.objects.create(number=number)
        seconds += time.perf_counter() - began
    return seconds


def rare_silent(model: Any, jobs: int) -> float:
    with override_settings(DBQUEUE={"NOTIFY": False}):
        return rare(model, jobs)


def many(model: Any, jobs: int) -> None:
    for start in range(0, jobs, BULK):
        model.objects.enqueue_many({"number": n} for n in range(start, start + BULK))


def bulk(model: Any, jobs: int) -> None:
    for start in range(0, jobs, BULK):
        model.objects.bulk_create([model(number=number) for number in range(start, start + BULK)])


def made(model: Any, jobs: int) -> float:
    """The seconds that bulk_create() takes for instances which are there already."""
    seconds = 0.0
    for start in range(0, jobs, BULK):
        chunk = [model(number=number) for number in range(start, start + BULK)]
        began = time.perf_counter()
        model.objects.bulk_create(chunk)
        seconds += time.perf_counter() - began
    return seconds


def bare(model: Any, jobs: int) -> None:
    """Rows as ours are, by the driver alone; what has a default in the database is left to it."""
    connection.ensure_connection()
    cursor = connection.connection.cursor()
    row = f"({', '.join(['?' if connection.vendor == 'sqlite' else '%s'] * 8)})"
    sql = f"INSERT INTO {model._meta.db_table} ({NAMES}) VALUES {', '.join([row] * BULK)}"
    for start in range(0, jobs, BULK):
        cursor.execute(sql, list(chain.from_iterable(rows_from(start))))


def copy(model: Any, jobs: int) -> None:
    """The same by COPY."""
    connection.ensure_connection()
    cursor = connection.connection.cursor()
    for start in range(0, jobs, BULK):
        with cursor.copy(f"COPY {model._meta.db_table} ({NAMES}) FROM STDIN") as writer:
            for row in rows_from(start):
                writer.write_row(row)


def rows_from(start: int) -> list[tuple[Any, ...]]:
    return [("default", 1024, 0, 0, 0, 0, "[]", n) for n in range(start, start + BULK)]


def statements(_: Adapter) -> int:
    """How many the server has executed so far."""
    sql = {
        "mysql": "SELECT variable_value FROM information_schema.global_status "
        "WHERE variable_name = 'QUESTIONS'",
        # Each of ours is a transaction of its own.
        "postgresql": "SELECT xact_commit + xact_rollback FROM pg_stat_database "
        "WHERE datname = current_database()",
    }
    with connection.cursor() as cursor:
        cursor.execute(sql[connection.vendor])
        return int(cursor.fetchone()[0])


def stages(adapter: Adapter, jobs: str, rounds: str) -> dict[str, float]:
    # Its imports need a Django that is set up.
    one_thread = import_module("benchmarks.one_thread")
    found: dict[str, float] = one_thread.stages(adapter.table, adapter.fill, int(jobs), int(rounds))
    return found


def workers(adapter: Adapter) -> int:
    """How many have begun."""
    return int(adapter.table._meta.apps.get_model("dbqueue.Worker").objects.count())


def server(_: Adapter) -> int:
    """The pid of the database's first process; 0 = it has none."""
    if connection.vendor == "sqlite":
        return 0
    with connection.cursor() as cursor:
        if connection.vendor == "mysql":
            cursor.execute("SELECT @@pid_file")
            return int(Path(cursor.fetchone()[0]).read_text())
        cursor.execute("SELECT pg_read_file('postmaster.pid')")
        return int(cursor.fetchone()[0].split()[0])


def prepare(adapter: Adapter) -> None:
    adapter.prepare()


def empty(adapter: Adapter) -> None:
    adapter.empty()


def burst(adapter: Adapter, jobs: str) -> float:
    """Enqueue them at once; the moment of the commit."""
    with transaction.atomic():
        adapter.enqueue(int(jobs))
    return time.monotonic()


# For each one that is asked for; 10 in bulk.
ROWS = {one_by_one: 1, silent: 1, rare: 0.1, rare_silent: 0.1}
LONG = (fill, pace, enqueue, statements, stages)
VERBS: dict[str, Any] = {
    verb.__name__: verb for verb in (*LONG, workers, server, prepare, empty, burst)
}


def main(made: type[Adapter], verbs: dict[str, Any], mode: str, verb: str, *arguments: str) -> None:
    adapter = made(mode)
    print(json.dumps(verbs[verb](adapter, *arguments)))


if __name__ == "__main__":
    main(Adapter, VERBS, *sys.argv[1:])
