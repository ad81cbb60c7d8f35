"""Fills a database, and measures on it what is looked at and what is done.

    python -m benchmarks.admin_inside ROWS [PART]

``PART``: only what has it in its name. A database that is filled already stays as it is. Prints
one line of JSON.
"""

import json
import os
import re
import sys
import time
from collections.abc import Callable
from typing import Any

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "testproject.settings"
django.setup()

from django.contrib.auth.models import User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402
from django.test import Client  # noqa: E402
from django.test.utils import CaptureQueriesContext  # noqa: E402

from benchmarks.admin_acts import ACTS, act  # noqa: E402
from benchmarks.admin_pages import looks  # noqa: E402
from benchmarks.admin_rows import fill, say  # noqa: E402
from benchmarks.reads import cpu_seconds, read_by  # noqa: E402
from django_dbqueue.mail.models import Email  # noqa: E402

ROUNDS, READ_ROUNDS = 3, 2
OK = 200
POOL_BYTES = 2 << 30  # of MariaDB; PostgreSQL and SQLite have the system's cache


def measure(look: Callable[[], Any]) -> dict[str, Any]:
    """By the clock the least of some times; and what one of them takes of the CPU."""
    first, times = look(), list[float]()
    content = getattr(first, "content", b"").decode()
    looked_at = re.search(r"among the ([0-9,]+) jobs", content)
    used = cpu_seconds()
    for _ in range(ROUNDS):
        began = time.perf_counter()
        look()
        times.append(time.perf_counter() - began)
    used = cpu_seconds() - used
    return {
        "status": getattr(first, "status_code", OK),
        "cpu": used / ROUNDS * 1000,
        "ms": min(times) * 1000,
        "queries": queries(look),
        "read": min(read_by(look) for _ in range(READ_ROUNDS)),
        "looked_at": looked_at[1] if looked_at else "",
    }


def queries(look: Callable[[], Any]) -> int:
    with CaptureQueriesContext(connection) as captured:
        look()
    return len(captured)


def prepared() -> Client:
    call_command("migrate", verbosity=0)
    if connection.vendor == "mysql":
        with connection.cursor() as cursor:
            cursor.execute("SET GLOBAL innodb_buffer_pool_size = %s", [POOL_BYTES])
    user, _ = User.objects.get_or_create(username="bench", is_staff=True, is_superuser=True)
    client = Client(HTTP_HOST="localhost")
    client.force_login(user)
    return client


def filled(rows: int, client: Client) -> dict[str, int]:
    """The number of queries of each look with few rows; nothing of a database that is filled."""
    if Email.objects.exists():
        return {}
    steps = fill(rows)
    next(steps)
    few = {name: queries(look) for name, look in looks(client).items()}
    next(steps)
    return few


def main(rows: int, part: str = "") -> None:
    client = prepared()
    few = filled(rows, client)
    found: dict[str, dict[str, Any]] = {}
    for name, look in looks(client).items():
        if part in name:
            found[name] = measure(look)
            found[name]["few"] = few.get(name, found[name]["queries"])
            say(f"{name}: {found[name]}")
    done = {}
    for name, what in ACTS.items():
        if part in name:
            done[name] = act(client, what)
            say(f"{name}: {done[name]}")
    print(json.dumps({"pages": found, "actions": done}))


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
