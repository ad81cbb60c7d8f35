"""In a Django project of its own: python -m benchmarks.growth.inside MODE VERB [NUMBER ...].

The last line of the output is the answer in JSON.
"""

import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from django.apps import apps
from django.db import connection, connections

from benchmarks.adapters.growth import Adapter
from benchmarks.growth import READY, rows
from benchmarks.marks import sent
from benchmarks.measures import inside
from django_dbqueue.dialects import dialect_of
from django_dbqueue.lifecycle import archive, promotion
from django_dbqueue.lifecycle.claim import claim
from django_dbqueue.lifecycle.low_instants import LowInstants
from django_dbqueue.lifecycle.table import Table, table_of
from django_dbqueue.states import Status

CLAIMED = 100  # jobs in one go
OLD, YOUNG = 30 * rows.DAY, 20 * rows.DAY  # seconds; what is pruned is between them
TENTHS = 10
TURN = 0.02  # seconds between two commits of jobs that come
Found = dict[str, list[float]]
SNAPSHOT = {
    "sqlite": ["BEGIN"],
    "postgresql": ["BEGIN ISOLATION LEVEL REPEATABLE READ"],
    "mysql": [
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    ],
}


def make(adapter: Adapter) -> None:
    rows.make(adapter.table, adapter.rows)


def claims(adapter: Adapter, jobs: str) -> Found:
    adapter.fill(int(jobs))
    numbers = iter(range(int(jobs)))

    def step(table: Table) -> int:
        return len(claim(table, "default", CLAIMED, f"growth.{next(numbers)}"))

    return repeated(adapter, step)


def enqueue(adapter: Adapter, jobs: str) -> dict[str, Found]:
    """One by one, and ten times as many in bulk."""
    found: dict[str, Found] = {}
    for name, insert, count in (
        ("create", inside.one_by_one, int(jobs)),
        ("many", inside.many, 10 * int(jobs)),
    ):
        adapter.empty()
        began = time.perf_counter()
        insert(adapter.table, count)
        found[name] = {"rows": [count], "seconds": [time.perf_counter() - began]}
    return found


def promote(adapter: Adapter, jobs: str) -> Found:
    insert(adapter, Status.DELAYED, int(jobs))
    return repeated(adapter, promotion.promote)


def keep(adapter: Adapter, jobs: str) -> dict[str, Found]:
    """Archive so many, then prune them."""
    insert(adapter, Status.DONE, int(jobs))
    archived = repeated(adapter, archive.archive)
    pruned = repeated(adapter, lambda table: archive.prune_archived(table, YOUNG))
    return {"archive": archived, "prune": pruned}


def rid(adapter: Adapter, jobs: str) -> dict[str, list[float]]:
    """Archive so many, prune them, and promote as many, as a reaper does that remembers where each
    look has ended; rows a second, tenth by tenth. Last, the milliseconds of a look for due ones."""
    insert(adapter, Status.DONE, int(jobs))
    rows.insert(adapter.table, Status.DELAYED, int(jobs), adapter.last, ago=OLD)
    rows.analyze(adapter.table)
    print(READY, flush=True)
    sys.stdin.readline()
    lows, found = LowInstants(), {}
    for name, step in (
        ("archive", lambda table: archive.archive(table, lows.finished)),
        ("prune", lambda table: archive.prune_archived(table, YOUNG, lows.archived)),
        ("promote", lambda table: promotion.promote(table, lows.delayed)),
    ):
        found[name] = tenths(repeated(adapter, step))
    table = table_of(adapter.table, "default")
    found["look"] = [milliseconds(lambda: promotion.next_moves(table, lows)) for _ in range(TENTHS)]
    return found


def tenths(calls: Found) -> list[float]:
    """Rows a second of each tenth of the calls."""
    both = [*zip(calls["rows"], calls["seconds"], strict=True)]
    size = max(1, len(both) // TENTHS)
    parts = [both[start : start + size] for start in range(0, size * TENTHS, size)]
    return [sum(count for count, _ in part) / sum(took for _, took in part) for part in parts]


def milliseconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def insert(adapter: Adapter, status: Status, count: int) -> None:
    """Rows whose time has come."""
    adapter.empty()
    rows.insert(adapter.table, status, count, max(adapter.last, adapter.first), ago=OLD)
    rows.reset_keys(adapter.table)
    rows.analyze(adapter.table)


def repeated(adapter: Adapter, step: Callable[[Table], int]) -> Found:
    """Until there is nothing left: how many rows each call changed, in how many seconds."""
    table = table_of(adapter.table, "default")
    # As on the connections of a worker.
    table.dialect.keep_to_indexes()
    found: Found = {"rows": [], "seconds": []}
    while not found["rows"] or found["rows"][-1]:
        began = time.perf_counter()
        found["rows"].append(step(table))
        found["seconds"].append(time.perf_counter() - began)
    return {name: values[:-1] for name, values in found.items()}


def arrive(adapter: Adapter, rate: str, jobs: str) -> None:
    """Enqueue so many a second, in small transactions; note each commit."""
    committed, number = sent(), 0
    began = time.monotonic()
    while number < int(jobs):
        due = min(int(jobs), int((time.monotonic() - began) * float(rate)))
        numbers = range(number, due)
        adapter.table.objects.enqueue_many({"number": one} for one in numbers)
        for one in numbers:
            committed.add(one)
        number = due
        time.sleep(TURN)


def hold(adapter: Adapter) -> None:
    """Keep a snapshot of now open, until SIGTERM."""
    for sql in SNAPSHOT[connection.vendor]:
        rows.execute(sql)
    adapter.table.objects.first()
    signal.pause()


def oldest(adapter: Adapter) -> float:
    """Seconds since the end of the archived job that ended first; 0 without any."""
    since = dialect_of(connections["default"]).seconds_until("finished_at")
    name = archive_of(adapter)
    found = fetched(f"SELECT {since} FROM {name} ORDER BY finished_at LIMIT 1")
    return -float(found) if found else 0.0


def behind(adapter: Adapter, prune_after: str) -> tuple[int, int]:
    """Finished jobs that wait to be archived, and archived ones that should be gone."""
    dialect, table = dialect_of(connections["default"]), adapter.table._meta.db_table
    past = f"status = {Status.DONE:d} AND {dialect.is_past('retry_at')}"
    over_age = dialect.is_past("finished_at", prune_after)
    return (
        fetched(f"SELECT COUNT(*) FROM {table} WHERE {past}"),
        fetched(f"SELECT COUNT(*) FROM {archive_of(adapter)} WHERE {over_age}"),
    )


def archive_of(adapter: Adapter) -> str:
    return str(apps.get_model(adapter.table.policy().archive)._meta.db_table)


def fetched(sql: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(sql, [])
        found = cursor.fetchone()
        return found and found[0]


VERBS = inside.VERBS | {
    verb.__name__: verb
    for verb in (make, claims, enqueue, promote, keep, rid, arrive, hold, oldest, behind)
}


if __name__ == "__main__":
    inside.main(Adapter, VERBS, *sys.argv[1:])
