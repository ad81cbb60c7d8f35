"""What a worker keeps open, and how much memory it takes, before and after very many jobs."""

import os
import signal
import statistics
from pathlib import Path

import pytest
from django.db import connection

from tests.kit.processes import wait_for_lines, worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Awaited, Deed, Once

pytestmark = [pytest.mark.each_database, pytest.mark.usefixtures("db_rows")]

MIB = 1024 * 1024
TABLES = (Deed, Once, Awaited)
SERVED = ("queueapp.Deed", "queueapp.Once", "queueapp.Awaited")


def open_connections(process=None):
    """To the test database, but for the test's own: at the server, or open files of SQLite."""
    if connection.vendor == "sqlite":
        # Each has its log open, and it alone: the database's own file stays open after a reconnect
        # for as long as another connection of the process holds a lock on it.
        pids = [process.pid, *process.children()] if process else []
        log = f"{database_file()}-wal"
        return sum(name.startswith(log) for pid in pids for name in descriptors(pid))
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(
                "SELECT COUNT(*) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid() "
                "AND backend_type = 'client backend'"  # nobody's autovacuum
            )
        else:
            cursor.execute(
                "SELECT COUNT(*) FROM information_schema.processlist "
                "WHERE db = DATABASE() AND id <> CONNECTION_ID()"
            )
        return cursor.fetchone()[0]


def database_file():
    return str(Path(connection.settings_dict["NAME"]).resolve())


def descriptors(pid):
    """Where the open descriptors of a process lead."""
    names = []
    for path in Path(f"/proc/{pid}/fd").iterdir():
        try:
            names.append(str(path.readlink()))
        except FileNotFoundError:
            pass  # closed meanwhile
    return names


def threads(pid):
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def memory(pid):
    """Resident bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def census(process):
    [child] = process.children()
    both = {"supervisor": process.pid, "child": child}
    counted = {f"descriptors of {who}": len(descriptors(pid)) for who, pid in both.items()}
    counted |= {f"threads of {who}": threads(pid) for who, pid in both.items()}
    return counted | {"connections": open_connections(process)}


def settled(process):
    """The census once it stays the same: a coroutine's thread ends a moment after its job."""
    takes = [census(process)]

    def is_same_again():
        takes.append(census(process))
        return takes[-1] == takes[-2]

    wait_until(is_same_again, every=0.5)
    return takes[-1]


def grown(before, after):
    return {name: (before[name], n) for name, n in after.items() if n > before[name]}


def mixed(count):
    """No-ops and queries, failures, coroutines with and without queries."""
    parts = count // 20
    Deed.objects.bulk_create(
        [Deed(action="query" if n % 4 == 0 else "") for n in range(17 * parts)], batch_size=500
    )
    Once.objects.bulk_create([Once(action="fail") for _ in range(parts)], batch_size=500)
    Awaited.objects.bulk_create(
        [Awaited(action=("", "orm", "together", "fail")[n % 4]) for n in range(2 * parts)],
        batch_size=500,
    )


def is_idle():
    return not any(model.objects.exclude(status__in=[2, 4]).exists() for model in TABLES)


def work_off(count):
    mixed(count)
    wait_until(is_idle, seconds=120, every=0.2)
    for model in TABLES:
        model.objects.all()._raw_delete("default")


def slope(samples):
    """MiB per 10,000 jobs, by least squares."""
    jobs, sizes = zip(*samples, strict=True)
    return statistics.linear_regression(jobs, sizes).slope * 10_000 / MIB


@pytest.mark.proof
def test_very_many_jobs_leave_no_memory_descriptor_thread_or_connection_behind(database_url, full):
    total, step = (100_000, 5_000) if full else (2_000, 1_000)
    wait_until(lambda: not open_connections())  # of the last test
    with worker(database_url, *SERVED, "--threads", "2") as process:
        work_off(1_000)
        base, samples = settled(process), {"supervisor": [], "child": []}
        [child] = process.children()
        for jobs in range(step, total + 1, step):
            work_off(step)
            samples["supervisor"].append((jobs, memory(process.pid)))
            samples["child"].append((jobs, memory(child)))
        after = settled(process)
        assert process.children() == [child]
        for _ in range(5):
            if not grown(base, after):
                break
            # The thread of a coroutine that was garbage ends when that is collected.
            work_off(1_000)
            after = settled(process)
        process.send(signal.SIGTERM)
        assert process.end() == 0
    print(f"after 1,000 jobs {base}; after {total:,} {after}")
    for who, sizes in samples.items():
        # What is needed once is needed after the first 10,000.
        later = [sample for sample in sizes if sample[0] > 10_000] or sizes
        growth = slope(later)
        print(f"{who}: {sizes[-1][1] / MIB:.1f} MiB, {growth:+.3f} MiB per 10,000 jobs")
        assert not full or growth < 1
    assert grown(base, after) == {}
    wait_until(lambda: not open_connections())


def use_all_threads(log, threads):
    """As many jobs at once as there are threads, each with a query."""
    done = Deed.objects.done().count()
    Deed.objects.bulk_create(
        [Deed(action="query", seconds=0.3, log=log) for _ in range(2 * threads)]
    )
    wait_until(lambda: Deed.objects.done().count() == done + 2 * threads)


def test_every_thread_has_one_connection_and_none_outlives_the_worker_or_a_dead_child(
    database_url, log
):
    wait_until(lambda: not open_connections())  # of the last test
    with worker(database_url, "queueapp.Deed", "--threads", "8") as process:
        wait_for_lines_of_child(process)
        use_all_threads(log, 8)
        first = open_connections(process)
        if connection.vendor != "sqlite":
            # The runners', the claimer's, the finisher's and the supervisor's.
            assert first <= 8 + 3
        [child] = process.children()
        os.kill(child, signal.SIGKILL)
        wait_until(lambda: process.children() and process.children() != [child])
        use_all_threads(log, 8)
        wait_until(lambda: open_connections(process) == first)
        process.send(signal.SIGTERM)
        assert process.end() == 0
    assert len({line.split()[4] for line in wait_for_lines(log, 1)}) == 16
    wait_until(lambda: not open_connections())


def wait_for_lines_of_child(process):
    wait_until(lambda: len(process.children()) == 1)
