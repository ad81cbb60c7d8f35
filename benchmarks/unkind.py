"""A good client of runbeanstalkd, next to nobody and next to hundreds of unkind ones.

    python scripts/servers.py run -- python -m benchmarks.unkind [--only PLACE]... [--lines N]

The good one does put, reserve and delete, one after another. Next to it are, in turns and in the
same run: nobody; 500 clients that are half-open, slow, greedy or talk nonsense; the same and
fuzzed lines, as fast as they are taken.

Prints a Markdown table, times in milliseconds. Exits 1 where the server has died or has used more
than 100 MiB, or a job is lost.
"""

import argparse
import itertools
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.beanstalk import PLACES, ours
from benchmarks.contestants import ROOT
from benchmarks.drain import say
from tests.kit.talker import Talker, talking

MEMORY_MAX = 100 * 2**20
KEPT = 200  # jobs that lie there all the time
WARM_UP = 50  # cycles of each place that are not counted
HEADS = ("idle", "unkind", "unkind and lines")
Latencies = dict[str, list[float]]


def memory(pid: int) -> int:
    """The most that it has had resident so far, in bytes; 0 = it is gone."""
    status = Path(f"/proc/{pid}/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def cycle(good: Talker, number: int) -> list[float]:
    """The seconds that each of its three commands took."""
    body, times = f"good {number}", [time.perf_counter()]
    key = good.put(body)
    times.append(time.perf_counter())
    assert good.reserve() == (key, body)
    times.append(time.perf_counter())
    assert good.ask(f"delete {key}") == ["DELETED"]
    times.append(time.perf_counter())
    return [after - before for before, after in itertools.pairwise(times)]


def measure(port: int, goes_on: Callable[[], bool]) -> list[float]:
    found: list[float] = []
    with talking(port, "good") as good:
        while goes_on():
            found += cycle(good, len(found))
    return found


def for_seconds(seconds: float) -> Callable[[], bool]:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() < end


@contextmanager
def unkind(what: str, port: int, *args: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "benchmarks.unkind_clients", what, str(port), *args]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def play(port: int, options: argparse.Namespace, seed: int, found: Latencies) -> None:
    """One round."""
    found["idle"] += measure(port, for_seconds(options.seconds))
    with unkind("clients", port, f"--count={options.clients}") as clients:
        assert clients.stdout is not None
        assert clients.stdout.readline() == "ready\n"
        found["unkind"] += measure(port, for_seconds(options.seconds))
        lines = options.lines // options.rounds
        with unkind("lines", port, f"--lines={lines}", f"--seed={seed}") as fuzzing:
            began = time.monotonic()
            found["unkind and lines"] += measure(port, lambda: fuzzing.poll() is None)
            assert fuzzing.wait() == 0, "the lines were not answered"
            say(f"{lines:,} lines in {time.monotonic() - began:.0f} s")
        assert clients.poll() is None


def keep(port: int) -> set[tuple[int, str]]:
    with talking(port, "kept") as talker:
        return {(talker.put(f"kept {n}", ttr=3600), f"kept {n}") for n in range(KEPT)}


def kept(port: int) -> set[tuple[int, str]]:
    with talking(port, "kept") as talker:
        return {talker.reserve() for _ in range(KEPT)}


def prove(place: str, options: argparse.Namespace) -> tuple[Latencies, list[str]]:
    """What was measured, and what is wrong."""
    found: Latencies = defaultdict(list)
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as folder, ours(place, folder) as (pid, port):
        known = keep(port)
        with talking(port, "good") as good:
            for number in range(WARM_UP):
                cycle(good, number)
        try:
            for number in range(options.rounds):
                play(port, options, options.seed + number, found)
                say(f"{place} {number + 1}/{options.rounds}: {memory(pid) / 2**20:.0f} MiB")
            if kept(port) != known:
                wrong.append("a job is lost")
        except (AssertionError, OSError) as error:
            wrong.append(f"a good client got no good answer: {error!r}")
        used = memory(pid)
    if not used:
        wrong.append("the server has died")
    if used > MEMORY_MAX:
        wrong.append(f"{used / 2**20:.0f} MiB of memory")
    print(row(place, found, used), flush=True)
    return found, wrong


def percentile(found: list[float], share: float) -> float:
    """Milliseconds."""
    return sorted(found)[int(len(found) * share)] * 1000 if found else float("nan")


def row(place: str, found: Latencies, used: int) -> str:
    cells = [place, f"{0 if used else 1}", f"{used / 2**20:.0f}"]
    for share in (0.5, 0.99):
        base = percentile(found["idle"], share)
        cells.append(f"{base:.1f}")
        for name in HEADS[1:]:
            value = percentile(found[name], share)
            cells.append(f"{value:.1f} ({value / base:.1f})")
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=PLACES)
    parser.add_argument("--clients", type=int, default=500)
    parser.add_argument("--lines", type=int, default=1_000_000, help="in all, on each database")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each part that has no end")
    parser.add_argument("--seed", type=int, default=5)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and end what was started
    times = [f"p{share} {name}" for share in (50, 99) for name in HEADS]
    print(f"| | crashes | MiB | {' | '.join(times)} |\n|{'---|' * (3 + len(times))}")
    wrong = [
        f"{place}: {why}" for place in options.only or PLACES for why in prove(place, options)[1]
    ]
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main()
