"""Rows of mail, as many as one likes, as a table has them that has been in use for long."""

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

from django.db import connection
from django.db.models import QuerySet

from benchmarks.django_project import ANALYZE
from django_dbqueue.demo_data.history import write_history
from django_dbqueue.fields import DbNow
from django_dbqueue.lifecycle.errors import appended, entry
from django_dbqueue.lifecycle.failures import failure_of
from django_dbqueue.mail.dbqueue_demo import example
from django_dbqueue.mail.finding import index_all
from django_dbqueue.mail.models import ArchivedEmail, Email, Recipient
from django_dbqueue.models import Minute, Queue, Worker
from django_dbqueue.states import Status

SEED = 10_000  # rows that are made, and then copied, unless somebody wants fewer
# Skewed, as tables in use are: one queue has nine jobs of ten, another a few of the oldest ones.
QUEUES = ("default",) * 9 + ("newsletter",)
RARE = "urgent"
RARE_ROWS = 20  # of each state
# To one address goes every tenth email, to the others a hundred each.
EVERYBODY, EVERYBODY_EVERY = "Everybody <everybody@customer.example>", 10
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
    for queue in {*QUEUES, RARE}:
        Queue.objects.pause(Email._meta.db_table, queue, None, "benchmark")
        Queue.objects.resume(Email._meta.db_table, queue)
        write_history("default", Email._meta.db_table, queue)
    for number in range(4):
        Worker.objects.create(
            uuid=f"{number:032}", host="host", pid=number + 1, serves=["dbqueue_mail.email"]
        )
    index()
    analyze()
    yield
    copy(rows, seed)
    index()
    analyze()
    yield


def index() -> None:
    """Whom they are for, as after an upgrade."""
    began = time.perf_counter()
    written, _ = index_all(lambda *_: None)
    seconds = time.perf_counter() - began
    print(f"index_recipients: {written} emails in {seconds:.0f} s", file=sys.stderr)


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
    for model in (Email, ArchivedEmail):
        meta = model._meta
        names = [str(field.column) for field in meta.concrete_fields if not field.primary_key]
        own = ", ".join(map(connection.ops.quote_name, names))
        key = connection.ops.quote_name(str(meta.pk.column))
        archived = model is ArchivedEmail
        into = f"{own}, {key}" if archived else own
        last = plain(model).order_by("-pk").values_list("pk", flat=True)[0]
        for turn in range(1, rows // seed):
            what = f"{own}, {key} + {turn * seed}" if archived else own
            with connection.cursor() as cursor:
                cursor.execute(
                    f"INSERT INTO {meta.db_table} ({into}) SELECT {what} FROM {meta.db_table} "
                    f"WHERE queue <> '{RARE}' AND {key} <= {last}"
                )


def make_rare() -> None:
    for model in (Email, ArchivedEmail):
        for status in Status:
            oldest = plain(model).filter(status=status).order_by("pk")
            keys = list(oldest.values_list("pk", flat=True)[:RARE_ROWS])
            plain(model).filter(pk__in=keys).update(queue=RARE)


def analyze() -> None:
    with connection.cursor() as cursor:
        for model in (Email, ArchivedEmail, Recipient, Minute):
            cursor.execute(f"{ANALYZE.get(connection.vendor, 'ANALYZE')} {model._meta.db_table}")
