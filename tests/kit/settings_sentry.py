"""Sentry with its ordinary integrations; events go as lines of JSON into the file ``EVENTS``, with
``RETRIES=0`` only of failures that are final."""

import json
import os
from pathlib import Path
from typing import Any

import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.integrations.django import DjangoIntegration
from sentry_sdk.transport import Transport

from django_dbqueue.integrations.sentry import DBQueueIntegration
from testproject.settings import *  # noqa: F403


class Local(Transport):
    """Keeps events until it is told to flush, as a slow network does."""

    kept: list[Any] = []

    def capture_envelope(self, envelope: Envelope) -> None:
        if (event := envelope.get_event()) is not None:
            self.kept.append({**event, "pid": os.getpid()})

    def flush(self, timeout: float, callback: Any = None) -> None:
        with Path(os.environ["EVENTS"]).open("a") as out:
            out.writelines(json.dumps(event, default=str) + "\n" for event in self.kept)
        self.kept.clear()


sentry_sdk.init(
    dsn="https://public@sentry.example.com/1",
    transport=Local,
    integrations=[
        DjangoIntegration(),
        DBQueueIntegration(retries=os.environ.get("RETRIES") != "0"),
    ],
)
