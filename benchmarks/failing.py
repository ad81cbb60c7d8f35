"""What the index of buried jobs by when they failed costs jobs that fail.

    python scripts/servers.py run -- python -m benchmarks.failing [--only PLACE]... [--rounds N]

A thousand no-op jobs are claimed and buried at once, each by a statement of its own, with the index
and without it, in turn. Prints the CPU of this process and of the server's process that serves it,
per job, and the ratio of both sums. On MariaDB the instant stands at the end of an index that is
there anyway: without it, that index is as it was before.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.adapters import URL_VARIABLE
from benchmarks.contestants import ROOT
from benchmarks.drain import say, url

PLACES = ("mariadb", "postgresql", "sqlite")
JOBS, BATCH = 1_000, 50
TICKS = os.sysconf("SC_CLK_TCK")


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", choices=PLACES)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.inside:
        measure(options.rounds)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        for place in options.only or PLACES:
            address = url(place, Path(folder))
            env = {**os.environ, URL_VARIABLE: address, "DATABASE_URL": address, "DEBUG": "0"}
            command = [sys.executable, "-m", "benchmarks.failing", "--inside"]
            say(place)
            subprocess.run([*command, f"--rounds={options.rounds}"], cwd=ROOT, env=env, check=True)
    return 0


def measure(rounds: int) -> None:
    """In a process of its own, on the database that its environment names."""
    adapter = import_module("benchmarks.adapters.dbqueue").Adapter("default")
    adapter.prepare()
    from django.db import connection  # noqa: PLC0415

    model = adapter.table
    new, old = _indexes(model)
    found: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for number in range(2 * rounds + 2):
        with_it = number % 2 == 0
        wanted, other = (new, old) if with_it else (old, new)
        with connection.schema_editor() as editor:
            if number and other:  # it is there at first
                editor.remove_index(model, other)
            if number and wanted:
                editor.add_index(model, wanted)
        cost = _cost(model)
        if number > 1:  # the first ones warm up
            found[with_it].append(cost)
    sums = {}
    for with_it, costs in found.items():
        own, server = (median(one[n] for one in costs) / JOBS * 1e6 for n in (0, 1))
        sums[with_it] = median(sum(one) for one in costs)
        say(f"  {'with' if with_it else 'without'} it: {own:.0f} µs here, {server:.0f} µs there")
    say(f"  rate without it / with it: {sums[False] / sums[True]:.3f}")


def _indexes(model: Any) -> tuple[Any, Any]:
    """That of when jobs failed, and what was there before, or None."""
    from django.db import connection, models  # noqa: PLC0415

    if connection.features.supports_partial_indexes:
        wanted = ["status", "failed_at", "id"]
        return next(one for one in model._meta.indexes if one.fields == wanted), None
    new = next(one for one in model._meta.indexes if one.fields == ["status", "retry_at"])
    return new, models.Index(fields=["status", "retry_at"], name=new.name)


def _cost(model: Any) -> tuple[float, float]:
    """Seconds of CPU of a thousand burials, here and there; some rows are buried already."""
    model.objects.bulk_create([model(number=n) for n in range(JOBS)], batch_size=500)
    jobs = []
    while batch := model.objects.claim(limit=BATCH):
        jobs += batch
    own, server = _own(), _server()
    for job in jobs:
        job.bury("for a person")
    cost = _own() - own, _server() - server
    assert len(jobs) == JOBS, len(jobs)
    return cost


def _own() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _server() -> float:
    """Of the process that serves this connection; 0 where there is none."""
    from django.db import connection  # noqa: PLC0415

    asked = {"postgresql": "SELECT pg_backend_pid()", "mysql": "SELECT @@pid_file"}
    if connection.vendor == "sqlite":
        return 0.0
    with connection.cursor() as cursor:
        cursor.execute(asked[connection.vendor])
        [found] = cursor.fetchone()
    pid = Path(found).read_text().strip() if connection.vendor == "mysql" else found
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
