"""Counting a million jobs, and what is shown of them: on each database, nine of ten in one queue.

    python scripts/servers.py run -- python -m benchmarks.counting [--only PLACE]... [--rows N]

Fills the mail queue and its archive as ``benchmarks.admin`` does. Prints how long one whole count
takes, by its parts, with the longest statement of each; and ``dbqueue status`` and the page of all
queues, before the first count and after it.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from statistics import median

from benchmarks.adapters import URL_VARIABLE
from benchmarks.contestants import ROOT
from benchmarks.drain import say, url

PLACES = ("mariadb", "postgresql", "sqlite")
ROUNDS = 7


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", choices=PLACES)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.inside:
        measure(options.rows)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        for place in options.only or PLACES:
            say(f"{place}: filling")
            address = url(place, Path(folder))
            env = {**os.environ, URL_VARIABLE: address, "DATABASE_URL": address, "DEBUG": "0"}
            command = [sys.executable, "-m", "benchmarks.counting", "--inside"]
            print(f"{place}:", flush=True)
            subprocess.run([*command, f"--rows={options.rows}"], cwd=ROOT, env=env, check=True)
    return 0


def measure(rows: int) -> None:
    """In a process of its own, on the database that its environment names."""
    inside = import_module("benchmarks.admin_inside")  # sets Django up
    from django.contrib.auth.models import User  # noqa: PLC0415
    from django.core.management import CommandError, call_command  # noqa: PLC0415
    from django.test import Client  # noqa: PLC0415

    from django_dbqueue.mail.models import Email  # noqa: PLC0415

    call_command("migrate", verbosity=0)
    for _ in inside.fill(rows):
        pass
    client = Client()
    client.force_login(User.objects.create_superuser("root"))

    def looks() -> None:
        print(f"  dbqueue status: {milliseconds(status):.0f} ms")
        print(f"  page of the queues: {milliseconds(page):.0f} ms")
        print(f"  list of the mail: {milliseconds(mail):.0f} ms")

    def status() -> None:
        # Its exit code says whether somebody is needed.
        with Path(os.devnull).open("w") as nowhere, suppress(CommandError):
            call_command("dbqueue", "status", "--json", stdout=nowhere)

    def page() -> None:
        assert client.get("/admin/dbqueue/queue/").status_code == 200

    def mail() -> None:
        assert client.get("/admin/dbqueue_mail/email/").status_code == 200

    looks()
    try:
        count(Email)
    except ImportError:
        return  # of a version that counts nothing
    looks()
    with suppress(CommandError):
        call_command("dbqueue", "status")


def count(model: type) -> None:
    """As an agent does, on a connection like its own."""
    from django_dbqueue.lifecycle.table import table_of  # noqa: PLC0415
    from django_dbqueue.metrics.counting import PARTS, begin, counted  # noqa: PLC0415
    from django_dbqueue.models import TableCount  # noqa: PLC0415

    table = table_of(model, "default")
    table.dialect.keep_to_indexes()
    for part in PARTS:
        row, _ = TableCount.objects.get_or_create(job_table=table.job_table, part=part)
        steps, took = counted(table, row, begin("default", row) or 0), []
        while True:
            began = time.perf_counter()
            is_over = next(steps, 1)
            took.append(time.perf_counter() - began)
            if is_over:
                break
        longest = max(took) * 1000
        print(f"  {part}: {sum(took):.2f} s, {len(took)} steps, the longest {longest:.0f} ms")
    table.connection.close()


def milliseconds(look: Callable[[], None]) -> float:
    look()
    took = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        look()
        took.append(time.perf_counter() - began)
    return median(took) * 1000


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
