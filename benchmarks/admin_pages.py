"""What people and machines look at: pages of the admin, commands, and answers for machines."""

from collections.abc import Callable
from datetime import UTC, datetime
from io import StringIO
from typing import Any
from urllib.parse import quote

from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client, RequestFactory

from benchmarks.admin_rows import ARCHIVED_FROM, ERROR, EVERYBODY, SEED
from django_dbqueue.lifecycle.failures import failure_of
from django_dbqueue.mail.models import Email
from django_dbqueue.management.top_model import Top
from django_dbqueue.management.verbs import ProblemsFound
from django_dbqueue.metrics.prometheus import metrics_view
from django_dbqueue.monitor.web import HEALTH, healthz_view, status_view
from django_dbqueue.states import Status
from django_dbqueue.worker.served import all_served

Looks = dict[str, Callable[[], Any]]  # each gives an answer with a status, or None
QUEUE = "/admin/dbqueue/queue/"
SEARCHES = {
    "an address": "customer7@customer.example",
    "an address of 100,000": EVERYBODY,
    "a subject": "Parcel 4322 ",
    "a subject of 250,000": "Your order",
    "nothing": "no such thing",
    "nobody": "nobody@customer.example",
    "an error": "TimeoutError",
    "a worker": "host",
    "an owner": f"{1:032}.1-1",
}
LIST, ARCHIVE = "/admin/dbqueue_mail/email/", "/admin/dbqueue_mail/archivedemail/"
SUPPRESSIONS = "/admin/dbqueue_mail/suppression/"
SPANS = ("hour", "day", "week")
KIND = failure_of(ERROR).fingerprint
# A box to tick, and the word of each action, by what it is called here.
ALL_OF_THEM = {"_selected_action": ["0"], "everything": "on", "select_across": "1", "index": "0"}


def looks(client: Client) -> Looks:
    return {**_pages(client), **_questions(client), **_for_machines(), **_commands()}


def _pages(client: Client) -> Looks:
    addresses = _around() | _lists() | _filtered() | _searches() | _archive() | _single()
    return {name: _asking(client, address) for name, address in addresses.items()}


def _asking(client: Client, address: str) -> Callable[[], Any]:
    return lambda: client.get(address)


def _around() -> dict[str, str]:
    charts = f"{QUEUE}charts/?table=dbqueue_mail.email"
    return {
        "overview": QUEUE,
        "failures": f"{QUEUE}failures/",
        "what people did": f"{QUEUE}activity/",
        "pause": f"{QUEUE}pause/?table=dbqueue_mail.email&queue=default",
        **{f"charts, {span}": f"{charts}&queue=default&span={span}" for span in SPANS},
        "charts, week, all queues": f"{charts}&span=week",
        "workers": "/admin/dbqueue/worker/",
        "one worker": f"/admin/dbqueue/worker/{0:032}/change/",
        "mailers": "/admin/dbqueue_mail/mailer/",
        "suppressions": SUPPRESSIONS,
        "suppressions, an address": f"{SUPPRESSIONS}?q=customer7@refused.example",
        "suppressions, by reason": f"{SUPPRESSIONS}?reason__exact=bounce",
        "tasks": "/admin/dbqueue_tasks/task/",
    }


def _lists() -> dict[str, str]:
    middle, last = _middle_and_last()
    of_states = {s.label: f"{LIST}?state={s.value}" for s in Status}
    return {
        "mail": LIST,
        **{f"mail, {name}": address for name, address in of_states.items()},
        **{
            f"mail, {name}, {queue} queue": f"{address}&queue={name_of}"
            for name, address in of_states.items()
            for queue, name_of in (("rare", "urgent"), ("largest", "default"))
        },
        "mail, rare queue": f"{LIST}?queue=urgent",
        "mail, largest queue": f"{LIST}?queue=default",
        "mail, no such queue": f"{LIST}?queue=nowhere",
        "mail, halfway": f"{LIST}?before=[{(middle + last) // 2}]",
        "mail, the oldest": f"{LIST}?before=[]",
        "mail, buried, the oldest": f"{LIST}?state=4&before=[]",
    }


def _filtered() -> dict[str, str]:
    return {
        "mail, one failure": f"{LIST}?failure={KIND}",
        "mail, one failure, buried": f"{LIST}?failure={KIND}&state=4",
        "mail, one failure, rare queue": f"{LIST}?failure={KIND}&state=4&queue=urgent",
        "mail, no such failure": f"{LIST}?failure=000000000000",
        "mail, failed in the last hour": f"{LIST}?state=4&failed=1h",
        "mail, failed in 24 hours, rare queue": f"{LIST}?state=4&failed=24h&queue=urgent",
        "mail, created in the last hour": f"{LIST}?created=1h",
        "mail, ready, created in the last hour": f"{LIST}?state=0&created=1h",
        "mail, ready, largest queue, created long ago": (
            f"{LIST}?state=0&queue=default&created_until=2000-01-01T00:00"
        ),
        "mail, created in the last 5 minutes": f"{LIST}?created=5m",
        "mail, sent in the last hour": f"{LIST}?state=2&finished=1h",
        "mail, what was sent again": f"{LIST}?resend_of__isnull=False",
        "mail, sent again as": f"{LIST}?resend_of={SEED}",
        "mail, what reports on other mail": f"{LIST}?about__isnull=False",
    }


def _searches() -> dict[str, str]:
    middle, _last = _middle_and_last()
    in_list = {"one key": str(middle), **SEARCHES}
    return {
        **{f"mail, search, {what}": f"{LIST}?q={quote(q)}" for what, q in in_list.items()},
        "mail, buried, search, an address": f"{LIST}?state=4&q={SEARCHES['an address']}",
        "mail, delayed, search, an address of 100,000": f"{LIST}?state=3&q={quote(EVERYBODY)}",
        **{f"search, {what}": f"{QUEUE}search/?q={quote(q)}" for what, q in SEARCHES.items()},
        "mail, within subjects": f"{LIST}?subject__icontains=parcel+4322",
        "mail, within no subject": f"{LIST}?subject__icontains=no+such+thing",
    }


def _archive() -> dict[str, str]:
    return {
        "archive": ARCHIVE,
        "archive, buried": f"{ARCHIVE}?state={Status.BURIED.value}",
        "archive, rare queue": f"{ARCHIVE}?queue=urgent",
        "archive, the oldest": f"{ARCHIVE}?before=[]",
        "archive, finished in the last hour": f"{ARCHIVE}?finished=1h",
        "archive, search, an address": f"{ARCHIVE}?q={SEARCHES['an address']}",
        "archive, search, nobody": f"{ARCHIVE}?q={SEARCHES['nobody']}",
        "archive, search, a subject of 250,000": f"{ARCHIVE}?q=Your+order",
        "archive, one job": f"{ARCHIVE}{ARCHIVED_FROM + SEED // 2}/change/",
    }


def _single() -> dict[str, str]:
    """One job of each state, and what is said of it."""
    keys = {s: Email.objects.filter(status=s).order_by("-pk")[:1] for s in Status}
    return {
        **{f"mail, one {s.label} job": f"{LIST}{jobs[0].pk}/change/" for s, jobs in keys.items()},
        "mail, history of one job": f"{LIST}{keys[Status.DONE][0].pk}/history/",
    }


def _middle_and_last() -> tuple[int, int]:
    last = Email.objects.order_by("-pk").values_list("pk", flat=True)[0]
    return last // 2, last


def _questions(client: Client) -> Looks:
    """What is asked before an action is done to all that match."""
    kind = {
        "table": "dbqueue_mail.email@default",
        "failure": KIND,
        "until": datetime.now(UTC).isoformat(),
    }
    asked: dict[str, tuple[str, dict[str, Any]]] = {
        "ask, retry one failure": (f"{QUEUE}retry/", kind),
        "ask, retry failed mail": (f"{LIST}?state=4", {"action": "kick_selected", **ALL_OF_THEM}),
        "ask, cancel all mail": (LIST, {"action": "cancel_selected", **ALL_OF_THEM}),
        "ask, cancel mail of a rare queue": (
            f"{LIST}?queue=urgent",
            {"action": "cancel_selected", **ALL_OF_THEM},
        ),
        "ask, send all mail again": (LIST, {"action": "resend_selected", **ALL_OF_THEM}),
        "ask, erase the archive": (ARCHIVE, {"action": "forget_selected", **ALL_OF_THEM}),
    }
    return {name: _telling(client, *what) for name, what in asked.items()}


def _telling(client: Client, address: str, data: dict[str, Any]) -> Callable[[], Any]:
    return lambda: client.post(address, data)


def _for_machines() -> Looks:
    request = RequestFactory().get("/")
    request.user = User.objects.get(username="bench")

    def healthz() -> Any:
        HEALTH.forget()
        # Whether all is well is not what is measured.
        return healthz_view(request) and None

    return {
        "healthz": healthz,
        "queues.json": lambda: status_view(request),
        "metrics": lambda: metrics_view(request),
    }


def _commands() -> Looks:
    def run(*words: str) -> Callable[[], None]:
        def look() -> None:
            try:
                call_command("dbqueue", *words, stdout=StringIO())
            except ProblemsFound:
                pass  # late jobs, say

        return look

    verbs = {
        "status": ("status",),
        "status --json": ("status", "--json"),
        "status, one queue": ("status", "dbqueue_mail.email:urgent"),
        "failures": ("failures",),
        "failures --queue": ("failures", "--queue", "urgent"),
        "failed": ("failed",),
        "failed --newer-than 1h": ("failed", "--newer-than", "1h"),
        "failed --queue": ("failed", "--queue", "urgent"),
        "workers": ("workers",),
        "monitor": ("monitor",),
        "explain": ("explain", "dbqueue_mail.email", str(_middle_and_last()[1])),
    }
    top = Top(all_served(), None)
    return {**{f"dbqueue {name}": run(*words) for name, words in verbs.items()}, "top": top.look}
