"""Rows of mail, as many as one likes, as a table has them that has been in use for long."""

import json
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.core.management.color import no_style
from django.db import connection
from django.db.models import QuerySet
from django.utils import timezone

from django_dbqueue.demo_data.history import write_failures, write_history
from django_dbqueue.fields import DbNow
from django_dbqueue.lifecycle.errors import appended, entry
from django_dbqueue.lifecycle.failures import failure_of
from django_dbqueue.lifecycle.table import table_of
from django_dbqueue.mail.dbqueue_demo import example
from django_dbqueue.mail.finding import index_all
from django_dbqueue.mail.models import ArchivedEmail, Email, Recipient, Suppression
from django_dbqueue.metrics.counting import PARTS, begin, counted
from django_dbqueue.models import Minute, Queue, TableCount, Worker
from django_dbqueue.states import Status

# As a table in use is: its planner knows it, and on PostgreSQL it is vacuumed.
ANALYZE = {"mysql": "ANALYZE TABLE", "postgresql": "VACUUM (ANALYZE)", "sqlite": "ANALYZE"}
SEED = 10_000  # rows that are made, and then copied, unless somebody wants fewer
# Skewed, as tables in use are: one queue has nine jobs of ten, another a few of the oldest ones.
QUEUES = ("default",) * 9 + ("newsletter",)
RARE = "urgent"
RARE_ROWS = 20  # of each state
# To one address goes every tenth email, to the others a hundred each.
EVERYBODY, EVERYBODY_EVERY = "Everybody <everybody@customer.example>", 10
JOBS = (Email, ArchivedEmail)
TIMES = {"created_at", "finished_at", "failed_at"}
SPAN = 7 * 86400.0  # seconds: the oldest copies are so much older
WORKERS, SLOTS = 4, 8
LOG_ENTRIES = 500
RESENT_EVERY = 1000  # rows: in all others the column is null
# Of a hundred rows; the others are done.
STATES = {Status.READY: 8, Status.DELAYED: 4, Status.BURIED: 2, Status.CLAIMED: 2}
ARCHIVED_FROM = 10**9  # no job has the key of one in the archive
ERROR = entry(TimeoutError("no answer within 10 s"), attempt=1, owner="host", seconds=1)


def fill(rows: int, seed: int = SEED) -> Iterator[None]:
    """First so many rows, then all of them."""
    states = [status for status, share in STATES.items() for _ in range(share)]
    states += [Status.DONE] * (100 - len(states))
    plain(Email).bulk_create([email(n, states[n * 7 % 100]) for n in range(seed)], 500)
    plain(ArchivedEmail).bulk_create(
        [ArchivedEmail(id=ARCHIVED_FROM + n, **columns(n, Status.DONE)) for n in range(seed)], 500
    )
    make_rare()
    around()
    index_all(lambda *_: None)
    tell()
    yield
    began = time.perf_counter()
    copy(rows, seed)
    others(rows)
    say(f"filled in {time.perf_counter() - began:.0f} s")
    tell()
    yield


def around() -> None:
    """What a table in use has next to it: minutes, kinds of failures, workers."""
    table = table_of(Email, "default")
    for queue in (*dict.fromkeys(QUEUES), RARE):
        Queue.objects.pause(Email._meta.db_table, queue, None, "benchmark")
        Queue.objects.resume(Email._meta.db_table, queue)
        write_history("default", table.job_table, queue)
        write_failures(table, queue)
    claimed = plain(Email).filter(status=Status.CLAIMED).order_by("-pk")
    keys = list(claimed.values_list("pk", flat=True)[: WORKERS * SLOTS])
    for number in range(WORKERS):
        Worker.objects.create(
            uuid=f"{number:032}",
            host="host",
            pid=number + 1,
            serves=["dbqueue_mail.email"],
            running={"1": [running(key) for key in keys[number::WORKERS]]},
            pool={"slots": SLOTS},
        )


def running(key: int) -> dict[str, Any]:
    return {"job": f"dbqueue_mail.email {key}", "seconds": key % 50, "limit": 60}


def others(rows: int) -> None:
    """Entries of the admin's log that are of no queue, and addresses that get no mail."""
    user, kind = User.objects.all()[0], ContentType.objects.get_for_model(User)
    log = {"user": user, "content_type": kind, "object_id": "1", "action_flag": CHANGE}
    few = [LogEntry(**log, object_repr=f"user {number}") for number in range(LOG_ENTRIES)]
    LogEntry.objects.bulk_create(few, 500)
    double(LogEntry, rows // 5)
    refused = (f"customer{number}@refused.example" for number in range(rows // 50))
    Suppression.objects.bulk_create([Suppression(address=one) for one in refused], 500)


def tell() -> None:
    """What the planner knows, and what a worker has counted."""
    table = table_of(Email, "default")
    analyze()
    for part in PARTS:
        row, _ = TableCount.objects.get_or_create(job_table=table.job_table, part=part)
        version = begin("default", row)
        if version is not None:
            list(counted(table, row, version))
        row.refresh_from_db()
        say(f"counted: {part} in {row.seconds:.1f} s")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def plain(model: Any) -> Any:
    """The rows past the manager, which would write each as a new job."""
    return QuerySet(model)


def email(number: int, status: Status) -> Email:
    return Email(**columns(number, status))


def columns(number: int, status: Status) -> dict[str, Any]:
    finished = status in {Status.DONE, Status.BURIED}
    moves = status in {Status.CLAIMED, Status.DELAYED}
    is_buried = status == Status.BURIED
    return {
        **example(number),
        **({"recipients": EVERYBODY} if number % EVERYBODY_EVERY == 0 else {}),
        "queue": QUEUES[number % len(QUEUES)],
        "resend_of": number + 1 if number % RESENT_EVERY == 0 else None,
        "status": status,
        "owner": f"{number % 4:032}.1-{number}" if status == Status.CLAIMED else None,
        "retry_at": DbNow(plus=86400 + number) if moves else None,
        "created_at": DbNow(plus=-number),
        "finished_at": DbNow() if finished else None,
        "attempts": 1,
        "errors": json.loads(appended(None, ERROR)) if is_buried else [],
        "failure": failure_of(ERROR).fingerprint if is_buried else None,
        "failed_at": DbNow() if is_buried else None,
    }


def copy(rows: int, seed: int) -> None:
    """The seed again and again, with other keys; the newest keys are of the last hours."""
    last = plain(Email).order_by("-pk").values_list("pk", flat=True)[0]
    stride, turns = max(last, seed), rows // seed
    rare = [key for model in JOBS for key in plain(model).filter(queue=RARE).values_list("pk")]
    kept = ", ".join(str(key) for (key,) in rare)
    for model in (*JOBS, Recipient):
        key = "email" if model is Recipient else "id"
        of_seed = f"({key} <= {last} OR {key} >= {ARCHIVED_FROM}) AND {key} NOT IN ({kept})"
        if model is not Email:
            of_seed += f" AND {key} < {ARCHIVED_FROM + seed}"
        for turn in range(1, turns):
            moment = timezone.now() - timedelta(seconds=(turns - 1 - turn) * SPAN / turns)
            copy_once(model, of_seed, f"{key} + {turn * stride}", moment)
    age(last, seed)
    with connection.cursor() as cursor:
        for sql in connection.ops.sequence_reset_sql(no_style(), [*JOBS]):
            cursor.execute(sql)


def age(last: int, seed: int) -> None:
    """The seed itself is the oldest."""
    moment = timezone.now() - timedelta(seconds=SPAN)
    for model, newest in ((Email, last), (ArchivedEmail, ARCHIVED_FROM + seed)):
        for name in TIMES:
            rows = plain(model).filter(pk__lte=newest, **{f"{name}__isnull": False})
            rows.update(**{name: moment})


def copy_once(model: Any, where: str, key: str, moment: datetime) -> None:
    meta, values, params = model._meta, {}, []
    for field in meta.concrete_fields:
        name = connection.ops.quote_name(str(field.column))
        values[name] = name
        if field.name in {"id", "email"}:
            values[name] = key
        elif field.name in TIMES:
            values[name] = f"CASE WHEN {name} IS NULL THEN NULL ELSE %s END"
            params.append(field.get_db_prep_save(moment, connection))
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {meta.db_table} ({', '.join(values)}) "
            f"SELECT {', '.join(values.values())} FROM {meta.db_table} WHERE {where}",
            params,
        )


def double(model: Any, rows: int) -> None:
    """Until there are at least so many."""
    meta = model._meta
    names = [str(field.column) for field in meta.concrete_fields if not field.primary_key]
    own = ", ".join(map(connection.ops.quote_name, names))
    while plain(model).count() < rows:
        with connection.cursor() as cursor:
            cursor.execute(f"INSERT INTO {meta.db_table} ({own}) SELECT {own} FROM {meta.db_table}")


def make_rare() -> None:
    for model in JOBS:
        for status in Status:
            oldest = plain(model).filter(status=status).order_by("pk")
            keys = list(oldest.values_list("pk", flat=True)[:RARE_ROWS])
            plain(model).filter(pk__in=keys).update(queue=RARE)


def analyze() -> None:
    with connection.cursor() as cursor:
        for model in (*JOBS, Recipient, Minute, LogEntry, Suppression):
            cursor.execute(f"{ANALYZE[connection.vendor]} {model._meta.db_table}")
