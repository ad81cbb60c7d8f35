"""Fills a database, and measures the pages and actions of the admin on it.

    python -m benchmarks.admin_inside ROWS

Prints one line of JSON.
"""

import json
import os
import re
import sys
import time
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
from django.test import Client  # noqa: E402
from django.test.utils import CaptureQueriesContext  # noqa: E402

from benchmarks.admin_rows import ERROR, EVERYBODY, SEED, fill  # noqa: E402
from django_dbqueue.lifecycle.failures import failure_of  # noqa: E402
from django_dbqueue.mail.models import Email  # noqa: E402
from django_dbqueue.states import Status  # noqa: E402

ROUNDS = 7
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
