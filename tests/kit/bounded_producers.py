"""Producers at a bounded queue with consumers at work: it never holds more than it may.

    python -m tests.kit.bounded_producers [--producers 8] [--consumers 1] [--max-length 1000]
        [--seconds 20] [--kills 10] [--when-full reject] [--here]

The producers enqueue by each way, in transactions and without; some are rolled back. Some producers
are killed meanwhile, and others take their places. DATABASE_URL names the server; without --here a
test database is made on it and dropped. Prints one line of JSON; exits 1 unless all adds up.
"""

import argparse
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

os.environ["DBQUEUE_TESTS"] = "1"
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")

LARGEST = 9  # jobs of one turn
EARLIER = "there before"
nap = threading.Event()
BREAK = 0.002  # seconds; a full queue leaves the machine to consumers


def turns(tag: str) -> Any:
    """The ways to enqueue, each with how many jobs."""
    from tests.queueapp.models import Note

    objects = Note.objects
    return [
        (1, lambda: objects.create(text=tag)),
        (3, lambda: [objects.create(text=tag) for _ in range(3)]),
        (1, lambda: objects.enqueue(text=tag, dedup_key=f"{tag} {time.monotonic_ns()}")),
        (7, lambda: objects.bulk_create([Note(text=tag) for _ in range(7)])),
        (LARGEST, lambda: objects.enqueue_many([{"text": tag}] * LARGEST)),
    ]


def produce(folder: str, stop: Any) -> None:
    """Until told to stop; what came of each turn is a line of a file."""
    from django.db import transaction

    from django_dbqueue.exceptions import QueueFull
    from django_dbqueue.signals import job_dropped

    tag = str(os.getpid())
    random.seed()
    with Path(folder, tag).open("a", buffering=1) as log:

        def dropped(**_: Any) -> None:
            log.write("dropped 1\n")

        job_dropped.connect(dropped)
        while not stop.value:
            count, work = random.choice(turns(tag))
            is_undone = random.random() < 0.1
            try:
                if count == 1 and not is_undone:
                    work()
                else:
                    with transaction.atomic():
                        work()
                        transaction.set_rollback(is_undone)
            except QueueFull:
                log.write(f"rejected {count}\n")
                nap.wait(BREAK)
            except Exception as error:
                log.write(f"{type(error).__name__} 1\n")
                log.write(f"# {error!r:.200}\n".replace("\n", " ") + "\n")
            else:
                log.write(f"{'undone' if is_undone else 'accepted'} {count}\n")


def consume(stop: Any) -> None:
    """Claim, more slowly than jobs come, and complete some; others are retried."""
    from tests.queueapp.models import Note

    random.seed()
    while not stop.is_set():
        jobs = Note.objects.claim(limit=2)
        for job in jobs:
            if random.random() < 0.1 and job.attempts < 2:
                job.fail("again")
            else:
                job.complete()
        Note.objects.delayed().kick()
        stop.wait(0.05)


def watch(stop: Any, seen: Any) -> None:
    """The most jobs that the queue has held, as somebody else sees it."""
    from django_dbqueue.lifecycle.room import length_of
    from tests.kit.jobs import table

    while not stop.is_set():
        seen.value = max(seen.value, length_of(table(), "default", 10**6))


def run(
    producers: int, consumers: int, max_length: int, seconds: float, kills: int, when_full: str
) -> dict[str, Any]:
    from django.db import connections
    from django.test import override_settings

    from tests.queueapp.models import Note

    Note.objects.all()._raw_delete("default")
    Note.objects.enqueue_many([{"text": EARLIER}] * (max_length * 9 // 10))
    options = {"max_length": max_length, "when_full": when_full}
    with (
        override_settings(DBQUEUE={"QUEUES": {"queueapp.note": options}}),
        tempfile.TemporaryDirectory() as folder,
    ):
        connections.close_all()  # none crosses the fork
        longest = play(folder, producers, consumers, seconds, kills)
        return judge(folder, longest, max_length, kills)


def play(folder: str, producers: int, consumers: int, seconds: float, kills: int) -> int:
    from tests.kit.waiting import wait_until

    fork = multiprocessing.get_context("fork")
    # Of an event a process that is killed would keep the lock.
    stop, rest, seen = fork.RawValue("b", 0), fork.Event(), fork.Value("q", 0)

    def start(target: Any, *args: Any) -> Any:
        process = fork.Process(target=target, args=args, daemon=True)
        process.start()
        return process

    others = [start(watch, rest, seen)]
    wait_until(lambda: seen.value)
    others += [start(consume, rest) for _ in range(consumers)]
    living = [start(produce, folder, stop) for _ in range(producers)]
    for _ in range(kills):
        nap.wait(seconds / (kills + 1))
        victim = living.pop(random.randrange(len(living)))
        os.kill(victim.pid, signal.SIGKILL)
        victim.join()
        living.append(start(produce, folder, stop))
    nap.wait(seconds / (kills + 1))
    stop.value = 1
    for process in living:
        process.join(60)
    rest.set()
    for process in others:
        process.join(60)
    return int(seen.value)


def judge(folder: str, longest: int, max_length: int, kills: int) -> dict[str, Any]:
    """Rows that nobody told of are those of producers that were killed in between."""
    from django_dbqueue.states import Status
    from tests.queueapp.models import Note

    logs = {path.name: path.read_text().splitlines() for path in Path(folder).iterdir()}
    told: Counter[str] = Counter()
    errors = [line for lines in logs.values() for line in lines if line.startswith("#")]
    rows = Counter(Note.objects.exclude(text=EARLIER).values_list("text", flat=True))
    untold = dict(rows)
    for name, lines in logs.items():
        mine: Counter[str] = Counter()
        for line in lines:
            if not line.startswith("#"):
                word, number = line.split()
                mine[word] += int(number)
        untold[name] = rows[name] - mine["accepted"]
        told += mine
    buried = Note.objects.filter(status=Status.BURIED).count()
    left = Note.objects.exclude(status__in=[Status.DONE, Status.BURIED]).count()
    is_right = (
        0 < longest <= max_length
        and all(0 <= count <= LARGEST for count in untold.values())
        and sum(count > 0 for count in untold.values()) <= kills
        and 0 <= buried - told["dropped"] <= kills * LARGEST
        and not errors
    )
    return {
        "right": is_right,
        "longest": longest,
        "max_length": max_length,
        **told,
        "rows": sum(rows.values()),
        "untold of the killed": sum(untold.values()),
        "dropped rows": buried,
        "done": Note.objects.done().count(),
        "left": left,
        "errors": errors[:5],
    }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--producers", type=int, default=8)
    parser.add_argument("--consumers", type=int, default=1)
    parser.add_argument("--max-length", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--when-full", default="reject")
    parser.add_argument("--here", action="store_true", help="use the database itself")
    options = vars(parser.parse_args(argv))
    import django

    django.setup()
    from django.db import connection, connections
    from django.test.utils import setup_databases, teardown_databases

    here = options.pop("here")
    config = None if here else setup_databases(verbosity=0, interactive=False)
    result = {"database": connection.vendor} | run(**options)
    if config is not None:
        connections.close_all()
        teardown_databases(config, verbosity=0)
    print(json.dumps(options | result))
    return 0 if result["right"] else 1


if __name__ == "__main__":
    sys.exit(main())
