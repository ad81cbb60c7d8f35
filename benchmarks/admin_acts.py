"""What is done to 10,000 jobs at once, the most that one action of the admin changes."""

import re
import time
from dataclasses import dataclass, field
from typing import Any

from django.contrib.admin.models import LogEntry
from django.db.models import QuerySet
from django.test import Client

from benchmarks.admin_pages import ALL_OF_THEM, ARCHIVE, LIST
from benchmarks.reads import cpu_seconds, read_by
from django_dbqueue.mail.models import ArchivedEmail, Email
from django_dbqueue.states import Status

ROWS = 10_000


@dataclass(frozen=True)
class Act:
    """An action on the list of a state, with the values that it asks for. ``rows``: those that are
    named one by one, where not the first that match are meant. ``changes``: to how many it is
    done."""

    action: str
    state: Status | None = None
    values: dict[str, str] = field(default_factory=dict)
    rows: QuerySet[Any] | None = None
    queue: str = ""
    changes: int = ROWS

    @property
    def address(self) -> str:
        place = LIST if self.rows is None or self.rows.model is Email else ARCHIVE
        state = "" if self.state is None else f"state={self.state.value}"
        return f"{place}?{state}" + (f"&queue={self.queue}" if self.queue else "")

    def data(self, client: Client) -> dict[str, Any]:
        """What is sent, with what the question has counted."""
        data = {"action": self.action, **ALL_OF_THEM, "confirmed": "yes", **self.values}
        if self.rows is not None:
            keys = self.rows.order_by("pk").values_list("pk", flat=True)[:ROWS]
            data["dbqueue_keys"] = ",".join(map(str, keys))
            return data
        page = client.post(self.address, {"action": self.action, **ALL_OF_THEM}).content.decode()
        return data | dict(re.findall(r'type="hidden" name="(dbqueue_\w+)" value="([^"]*)"', page))


SENT = Email.objects.filter(status=Status.DONE, is_erased=False)
ACTS = {
    "retry failed mail": Act("kick_selected", Status.BURIED),
    "retry failed mail of a rare queue": Act(
        "kick_selected", Status.BURIED, queue="urgent", changes=20
    ),
    "mark unsent mail as failed": Act("bury_selected", Status.READY),
    "give back claimed mail": Act("release_selected", Status.CLAIMED),
    "send delayed mail now": Act("kick_selected", Status.DELAYED),
    "take out sent mail": Act("cancel_selected", Status.DONE),
    "prioritize unsent mail": Act("prioritize_selected", Status.READY, {"dbqueue-priority": "5"}),
    "reschedule delayed mail": Act(
        "reschedule_selected", Status.DELAYED, {"dbqueue-due": "2100-01-01T00:00"}
    ),
    "retry failed mail with another time": Act(
        "kick_with_selected", Status.BURIED, {"dbqueue-time_to_run": "600"}
    ),
    "move unsent mail to another queue": Act(
        "move_selected", Status.READY, {"dbqueue-queue": "elsewhere"}
    ),
    "send mail of the archive again": Act("resend_selected", rows=ArchivedEmail.objects.all()),
    "erase sent mail": Act("forget_selected", Status.DONE, rows=SENT),
}


def act(client: Client, what: Act) -> dict[str, Any]:
    """How long it took, and what the admin's log says of it."""
    data, took, used = what.data(client), 0.0, cpu_seconds()
    answers: list[Any] = []

    def send() -> None:
        nonlocal took
        began = time.perf_counter()
        answers.append(client.post(what.address, data))
        if answers[0].streaming:
            b"".join(answers[0].streaming_content)
        took = time.perf_counter() - began

    read = read_by(send)
    used = cpu_seconds() - used
    said = LogEntry.objects.order_by("-pk")[0]
    number = f"{what.changes:,} "
    return {
        "status": answers[0].status_code,
        "seconds": took,
        "cpu": used,
        "is_done": said.object_repr.startswith(number),
        "read": read,
        "said": f"{said.object_repr}: {said.change_message}"[:200],
    }
