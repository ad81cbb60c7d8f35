"""Many claimers and enqueuers at once, as processes: nothing is lost, nothing is claimed twice.

    python -m tests.kit.stress [--claimers 10] [--jobs 10000] [--batch 10] [--enqueuers 2] [--here]

Half of the jobs wait at the start, the enqueuers add the rest meanwhile. DATABASE_URL names the
server; without --here a test database is made on it and dropped. Prints one line of JSON; exits
1 unless everything adds up.
"""

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

os.environ["DBQUEUE_TESTS"] = "1"
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")


def own_session() -> None:
    """What a worker's connection does for itself."""
    from django.db import connection

    from django_dbqueue.dialects import dialect_of
    from tests.kit.jobs import table

    with table().connection.cursor() as cursor:
        cursor.execute(dialect_of(table().connection).own_session())
    assert connection.connection is not None


def once_free(work: Callable[[], Any]) -> Any:
    """On a busy machine somebody may stand still who has SQLite's lock; a worker tries again."""
    from django.db import OperationalError

    for _ in range(3):
        try:
            return work()
        except OperationalError as error:
            if "database is locked" not in str(error):
                raise
    return work()


def claimer(batch: int, stop: Any, report: Any) -> None:
    """Claim and complete until told to stop and nothing is left."""
    from django_dbqueue.lifecycle import holder
    from django_dbqueue.lifecycle.claim import claim
    from tests.kit.jobs import table

    own_session()
    keys, number = [], 0
    while True:
        number += 1
        last_turn = stop.is_set()
        owner = f"{os.getpid()}.{number}"
        jobs = once_free(lambda: claim(table(), "default", batch, owner))  # noqa: B023
        if jobs:
            keys += [job.pk for job in jobs]
            ran = [job.pk for job in jobs]
            written = once_free(lambda: holder.complete(table(), owner, ran))  # noqa: B023
            assert len(written.written) == len(jobs), written
        elif last_turn:
            break
        else:
            stop.wait(0.005)
    report({"keys": keys, "claims": number})


def enqueuer(count: int, report: Any) -> None:
    """Enqueue one at a time and in bulk, in transactions of its own; one in ten is undone."""
    from django.db import transaction

    from tests.queueapp.models import Note

    added = turn = 0
    while added < count:
        turn += 1
        size = min(1 if turn % 4 else 25, count - added)
        jobs = [Note(priority=turn % 3) for _ in range(size)]
        with transaction.atomic():
            Note.objects.bulk_create(jobs) if size > 1 else jobs[0].save()
            if turn % 10 == 0:
                transaction.set_rollback(True)
        added += 0 if turn % 10 == 0 else size
    report({"added": added})


def work(target: Callable[..., None], args: tuple[Any, ...], answers: Any) -> None:
    from django_dbqueue.lifecycle.execute import Retries

    def report(answer: dict[str, Any]) -> None:
        answers.put(answer | {"retries": Retries.count})

    try:
        target(*args, report)
    except Exception as error:
        answers.put({"error": f"{target.__name__}: {error!r}"})


def run(claimers: int, jobs: int, batch: int, enqueuers: int) -> dict[str, Any]:
    from django.db import connections

    from tests.queueapp.models import Note

    Note.objects.all().delete()
    enqueued = jobs // 2 // enqueuers * enqueuers
    Note.objects.bulk_create((Note() for _ in range(jobs - enqueued)), batch_size=500)
    connections.close_all()  # none crosses the fork
    fork = multiprocessing.get_context("fork")
    answers, stop = fork.Queue(), fork.Event()
    began = time.monotonic()
    takers = [(claimer, (batch, stop))] * claimers
    givers = [(enqueuer, (enqueued // enqueuers,))] * enqueuers
    processes = [fork.Process(target=work, args=(*one, answers)) for one in takers + givers]
    for process in processes:
        process.start()
    found = [answers.get(timeout=300) for _ in givers]
    stop.set()
    found += [answers.get(timeout=300) for _ in takers]
    seconds = time.monotonic() - began
    for process in processes:
        process.join(30)
    return judge(found, jobs, seconds)


def judge(found: list[dict[str, Any]], jobs: int, seconds: float) -> dict[str, Any]:
    from tests.queueapp.models import Note

    claims = Counter(key for answer in found for key in answer.get("keys", ()))
    rows = Note.objects.values_list("status", "attempts")
    return {
        "jobs": jobs,
        "claimed": len(claims),
        "twice": sum(count > 1 for count in claims.values()),
        "lost": jobs - len(claims),
        "unfinished": sum(row != (2, 1) for row in rows),
        "rows": len(rows),
        "errors": [answer["error"] for answer in found if "error" in answer],
        "retried statements": sum(answer.get("retries", 0) for answer in found),
        "claims": sum(answer.get("claims", 0) for answer in found),
        "seconds": round(seconds, 2),
        "jobs/s": round(jobs / seconds),
    }


def adds_up(result: dict[str, Any]) -> bool:
    wrong = ("twice", "lost", "unfinished")
    return (
        not result["errors"]
        and not any(result[name] for name in wrong)
        and (result["rows"] == result["jobs"])
    )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--claimers", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--enqueuers", type=int, default=2)
    parser.add_argument("--here", action="store_true", help="use the database itself")
    options = vars(parser.parse_args(argv))
    import django

    django.setup()
    from django.db import connections
    from django.test.utils import setup_databases, teardown_databases

    here = options.pop("here")
    config = None if here else setup_databases(verbosity=0, interactive=False)
    result = run(**options)
    if config is not None:
        connections.close_all()
        teardown_databases(config, verbosity=0)
    print(json.dumps(options | result))
    return 0 if adds_up(result) else 1


if __name__ == "__main__":
    sys.exit(main())
