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
        from .models import Note

        for name in OF_JOBS:
            connect(name, partial(tell, name), sender=Note)
        for name in ("worker_started", "worker_stopped"):
            connect(name, partial(tell_child, name))


def connect(name: str, receiver: Any, sender: Any = None) -> None:
    # A test may make the app ready once more.
    uid = f"queueapp {name}"
    getattr(signals, name).connect(receiver, sender=sender, weak=False, dispatch_uid=uid)


def tell(name: str, sender: Any, job: Any, **more: Any) -> None:
    from .faults import record
    from .planner import planner_settings

    if job.text == "interrupt":
        raise KeyboardInterrupt("a receiver that would end the thread")
    if job.text == "settings":
        record(job.log, planner_settings())
    if job.text == "tell":
        record(job.log, f"{name} note-{job.pk}")
        raise SystemExit("a receiver that would end the process")


def tell_child(name: str, **more: Any) -> None:
    from .faults import record

    if path := os.environ.get("QUEUEAPP_CHILDREN"):
        record(path, name)
        raise RuntimeError("a receiver that does not work")
