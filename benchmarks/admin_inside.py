"""Fills a database, and measures the pages and actions of the admin on it.

    python -m benchmarks.admin_inside ROWS

Prints one line of JSON.
"""

import json
import os
import re
import sys
import time
from collections.abc import Iterator
from statistics import median
from typing import Any
from urllib.parse import quote

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "testproject.settings"
django.setup()

from django.contrib.admin.models import LogEntry  # noqa: E402
from django.contrib.auth.models import User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402
from django.db.models import QuerySet  # noqa: E402
from django.test import Client  # noqa: E402
from django.test.utils import CaptureQueriesContext  # noqa: E402

from benchmarks.django_project import ANALYZE  # noqa: E402
from django_dbqueue.demo_data.history import write_history  # noqa: E402
from django_dbqueue.fields import DbNow  # noqa: E402
from django_dbqueue.lifecycle.errors import appended, entry  # noqa: E402
from django_dbqueue.lifecycle.failures import failure_of  # noqa: E402
from django_dbqueue.mail.dbqueue_demo import example  # noqa: E402
from django_dbqueue.mail.finding import index_all  # noqa: E402
from django_dbqueue.mail.models import ArchivedEmail, Email, Recipient  # noqa: E402
from django_dbqueue.models import Minute, Queue, Worker  # noqa: E402
from django_dbqueue.states import Status  # noqa: E402

SEED = 10_000  # rows that are made, and then copied
ROUNDS = 7
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
# What is done to the first 10,000 that match, the most that one action changes.
ACTIONS: dict[str, tuple[Any, ...]] = {
    "retry failed mail": ("kick_selected", Status.BURIED),
    "mark unsent mail as failed": ("bury_selected", Status.READY),
    "give back claimed mail": ("release_selected", Status.CLAIMED),
    "send delayed mail now": ("kick_selected", Status.DELAYED),
    "take out sent mail": ("cancel_selected", Status.DONE),
    "prioritize unsent mail": ("prioritize_selected", Status.READY, {"dbqueue-priority": "5"}),
    "reschedule delayed mail": (
        *("reschedule_selected", Status.DELAYED),
        {"dbqueue-due": "2100-01-01T00:00"},
    ),
    "retry failed mail with another time": (
        *("kick_with_selected", Status.BURIED),
        {"dbqueue-time_to_run": "600"},
    ),
    "move unsent mail to another queue": (
        *("move_selected", Status.READY),
        {"dbqueue-queue": "elsewhere"},
    ),
}
ERROR = entry(TimeoutError("no answer within 10 s"), attempt=1, owner="host", seconds=1)
SEARCH = "/admin/dbqueue/queue/search/"
SEARCHES = {
    "an address": "customer7@customer.example",
    "an address of 100,000": EVERYBODY,
    "a subject": "Parcel 4322 ",
    "a subject of 250,000": "Your order",
    "nothing": "no such thing",
    "nobody": "nobody@customer.example",
    "an error": "TimeoutError",
}
LIST, ARCHIVE = "/admin/dbqueue_mail/email/", "/admin/dbqueue_mail/archivedemail/"


def fill(rows: int) -> Iterator[None]:
    """First a hundredth of the rows, then all of them."""
    states = [status for status, share in STATES.items() for _ in range(share)]
    states += [Status.DONE] * (100 - len(states))
    plain(Email).bulk_create([email(n, states[n * 7 % 100]) for n in range(SEED)], 500)
    plain(ArchivedEmail).bulk_create(
        [ArchivedEmail(id=ARCHIVED_FROM + n, **columns(n, Status.DONE)) for n in range(SEED)], 500
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
    copy(rows)
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


def copy(rows: int) -> None:
    for model in (Email, ArchivedEmail):
        meta = model._meta
        names = [str(field.column) for field in meta.concrete_fields if not field.primary_key]
        own = ", ".join(map(connection.ops.quote_name, names))
        key = connection.ops.quote_name(str(meta.pk.column))
        archived = model is ArchivedEmail
        into = f"{own}, {key}" if archived else own
        last = plain(model).order_by("-pk").values_list("pk", flat=True)[0]
        for turn in range(1, rows // SEED):
            what = f"{own}, {key} + {turn * SEED}" if archived else own
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


def pages() -> dict[str, str]:
    middle = Email.objects.order_by("pk").values_list("pk", flat=True)[SEED // 2]
    last = Email.objects.order_by("-pk").values_list("pk", flat=True)[0]
    deep = (middle + last) // 2
    charts = "/admin/dbqueue/queue/charts/?table=dbqueue_mail.email"
    tabs = {f"mail, {s.label}": f"{LIST}?state={s.value}" for s in Status}
    both = {f"mail, {s.label}, one queue": f"{LIST}?state={s.value}&queue=urgent" for s in Status}
    spans = {f"charts, {s}": f"{charts}&queue=default&span={s}" for s in SPANS}
    return {
        "overview": "/admin/dbqueue/queue/",
        "failures": "/admin/dbqueue/queue/failures/",
        "mail, one failure": f"{LIST}?failure={failure_of(ERROR).fingerprint}",
        **spans,
        "charts, week, all queues": f"{charts}&span=week",
        "mail": LIST,
        **tabs,
        "mail, one queue": f"{LIST}?queue=urgent",
        **both,
        "mail, half a million rows on": f"{LIST}?before={deep}",
        "mail, search": f"{LIST}?q={middle}",
        **{f"mail, {what}": f"{LIST}?q={quote(term)}" for what, term in SEARCHES.items()},
        "archive, an address": f"{ARCHIVE}?q={SEARCHES['an address']}",
        **{f"search, {what}": f"{SEARCH}?q={quote(term)}" for what, term in SEARCHES.items()},
        "mail, one job": f"{LIST}{middle}/change/",
        "archive": ARCHIVE,
        "archive, buried": f"{ARCHIVE}?state={Status.BURIED.value}",
        "workers": "/admin/dbqueue/worker/",
        "one worker": f"/admin/dbqueue/worker/{0:032}/change/",
    }


SPANS = ("hour", "day", "week")


def measure(client: Client, page: str) -> dict[str, Any]:
    first = client.get(page)
    looked_at = re.search(r"among the ([0-9,]+) jobs", first.content.decode())
    status, times = first.status_code, []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        client.get(page)
        times.append(time.perf_counter() - began)
    return {
        "status": status,
        "ms": median(times) * 1000,
        "queries": queries(client, page),
        "looked_at": looked_at[1] if looked_at else "",
    }


def queries(client: Client, page: str) -> int:
    with CaptureQueriesContext(connection) as captured:
        client.get(page)
    return len(captured)


def act(
    client: Client, action: str, state: Status, values: dict[str, str] | None = None
) -> dict[str, Any]:
    everything = {"everything": "on", "select_across": "1", "confirmed": "yes", "index": "0"}
    data = {"action": action, "_selected_action": ["0"], **everything, **(values or {})}
    began = time.perf_counter()
    status = client.post(f"{LIST}?state={state.value}", data).status_code
    seconds = time.perf_counter() - began
    said = LogEntry.objects.order_by("-pk")[0].change_message
    return {"status": status, "seconds": seconds, "said": said}


def main(rows: int) -> None:
    call_command("migrate", verbosity=0)
    user, _ = User.objects.get_or_create(username="bench", is_staff=True, is_superuser=True)
    client = Client(HTTP_HOST="localhost")
    client.force_login(user)
    steps = fill(rows)
    next(steps)
    few = {name: queries(client, page) for name, page in pages().items()}
    next(steps)
    found = {name: measure(client, page) for name, page in pages().items()}
    done = {name: act(client, *what) for name, what in ACTIONS.items()}
    both = {name: {**its, "few": few[name]} for name, its in found.items()}
    print(json.dumps({"pages": both, "actions": done}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
