"""How much a database reads to answer, and what that takes of a CPU: a clock tells of the machine's
other work, too."""

import time
from collections.abc import Callable
from pathlib import Path

from django.db import connection

from tests.kit.query_plans import handler_reads, instructions

# Of SQLite's machine; it needs about as many to go over a row of a list.
INSTRUCTIONS = 20


def read_by(action: Callable[[], object]) -> int:
    """The rows, and entries of indexes, that a database went over meanwhile; on SQLite twenties of
    instructions. Nobody else may be at work in it."""
    if connection.vendor == "sqlite":
        return instructions(action, INSTRUCTIONS)
    before = SUMS[connection.vendor]()
    action()
    return SUMS[connection.vendor]() - before


def _tuples() -> int:
    """Of the whole database, on PostgreSQL."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute(
            "SELECT (SELECT SUM(seq_tup_read) FROM pg_stat_user_tables) "
            "+ (SELECT SUM(idx_tup_read) FROM pg_stat_user_indexes)"
        )
        return int(cursor.fetchone()[0])


SUMS = {"mysql": handler_reads, "postgresql": _tuples}


def cpu_seconds() -> float:
    """Of this process so far, and of the server where it is one of this machine: on MariaDB of all
    of it, on PostgreSQL of this connection's process."""
    return time.process_time() + sum(map(_on_cpu, _tasks()))


def _tasks() -> list[Path]:
    if connection.vendor == "sqlite":
        return []
    sql = "SELECT pg_backend_pid()" if connection.vendor == "postgresql" else "SELECT @@pid_file"
    with connection.cursor() as cursor:
        cursor.execute(sql)
        [found] = cursor.fetchone()
    pid = found if isinstance(found, int) else int(Path(found).read_text())
    return list(Path(f"/proc/{pid}/task").iterdir())


def _on_cpu(task: Path) -> float:
    try:
        return int((task / "schedstat").read_text().split()[0]) / 1e9
    except FileNotFoundError:  # a thread has just ended
        return 0.0
