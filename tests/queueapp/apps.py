"""Receivers of every signal: they leave a line where the test asked for it, and raise."""

import os
from functools import partial
from typing import Any

from django.apps import AppConfig

from django_dbqueue import signals

OF_JOBS = ("job_started", "job_completed", "job_failed", "job_buried", "job_expired", "job_reaped")


class QueueAppConfig(AppConfig):
    name = "tests.queueapp"

    def ready(self) -> None:
        for name in OF_JOBS:
            note = self.get_model("Note")
            getattr(signals, name).connect(partial(tell, name), sender=note, weak=False)
        for name in ("worker_started", "worker_stopped"):
            getattr(signals, name).connect(partial(tell_child, name), weak=False)


def tell(name: str, sender: Any, job: Any, **more: Any) -> None:
    from .faults import record

    if job.text == "tell":
        record(job.log, f"{name} note-{job.pk}")
        raise SystemExit("a receiver that would end the process")


def tell_child(name: str, **more: Any) -> None:
    from .faults import record

    if path := os.environ.get("QUEUEAPP_CHILDREN"):
        record(path, name)
        raise RuntimeError("a receiver that does not work")
