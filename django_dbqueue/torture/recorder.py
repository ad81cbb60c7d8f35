"""Writes down what the processes of a torture do, and what their queue says of jobs."""

import logging
from functools import cache
from typing import Any

from django.conf import settings

from ..lifecycle.claim_end import RetryDecision
from ..lifecycle.reap import WorkerLost
from .history import History

SAID = {
    "job.completed": "completed",
    "job.failed": "failed",
    "job.expired": "expired",
    "job.lost": "lost",
    "job.reaped": "reaped",
}


def given() -> dict[str, Any]:
    """What the settings of this process were told."""
    told: dict[str, Any] = getattr(settings, "GIVEN")  # noqa: B009  # no setting of Django's
    return told


@cache
def history() -> History:
    return History(given()["folder"], given()["who"])


def tell(op: str, kind: str, **fields: Any) -> None:
    history().write(op, kind, **fields)


class Recorder(logging.Handler):
    """Hears the queue's log: unlike its signals it names the owner who lost a job."""

    def emit(self, record: logging.LogRecord) -> None:
        said = vars(record)
        op = SAID.get(said.get("event", ""))
        if op is None:
            return
        known = {"key": said["id"], "owner": said["owner"]}
        last = record.args[-1] if isinstance(record.args, tuple) and record.args else None
        if op == "reaped":
            # What became of it: the words say it.
            words = str(last)
            verdict = "delayed" if "retried in" in words else "ready"
            known["verdict"] = "buried" if "buried" in words else verdict
            known |= {"charged": isinstance(last, WorkerLost), "words": words[:200]}
        if op == "failed" and isinstance(last, RetryDecision):
            op, known["retry_in"] = ("buried" if last.is_buried else op), last.delay
        tell(op, "info" if op == "lost" else "ok", **known)
