"""What the tests of the overview, its banners and the workers' page share."""

import uuid
from typing import Any

from django.db import connections
from django.db.models import Model
from django.db.utils import load_backend

from django_dbqueue.fields import DbNow
from django_dbqueue.metrics.recorder import this_minute
from django_dbqueue.models import Job, Minute, Worker
from django_dbqueue.monitor.overview import Overview, QueueOverview, overview
from django_dbqueue.worker.served import Served
from tests.queueapp.models import Note

CANARY = '"><script>alert(1)</script>'
NOTE = "queueapp.note"
OVERVIEW = "/admin/dbqueue/queue/"
WORKERS = "/admin/dbqueue/worker/"


def look(*models: type[Job]) -> Overview:
    return overview([Served(model, "default") for model in models or (Note,)])


def queues() -> dict[str, QueueOverview]:
    """Those of the notes; but for the queue that is always shown, where nothing is in it."""
    found = {one.queue: one for one in look().queues}
    if not any(found["default"].counts.values()):
        del found["default"]
    return found


def a_worker(**columns: Any) -> Worker:
    """One that beats for a minute, unless the columns say otherwise."""
    given = {"host": "web1", "pid": 1, "serves": [NOTE], "beat_at": DbNow(plus=60)}
    return Worker.objects.create(uuid=uuid.uuid4().hex, **given | columns)


def minute(ago: int, queue: str = "default", *, now: int | None = None, **columns: Any) -> Minute:
    """The row of the minute so long ago; now: the same for several, as a minute may just end."""
    at = (this_minute("default") if now is None else now) - ago
    given = {"job_table": Note._meta.db_table, "queue": queue, "minute": at}
    return Minute.objects.create(**given | columns)


def text_of(response: Any, status: int = 200) -> str:
    assert response.status_code == status
    return str(response.content.decode())


class Away:
    """A database that cannot be reached, and a router that keeps one table there."""

    def __init__(self, model: type[Job]) -> None:
        self.model = model
        nowhere = {"ENGINE": "django.db.backends.sqlite3", "NAME": "/nowhere/away.sqlite3"}
        connections.databases["away"] = {**connections.databases["default"], **nowhere}
        connections.databases["away"]["OPTIONS"] = {}
        connections["away"] = load_backend(nowhere["ENGINE"]).DatabaseWrapper(
            connections.databases["away"], "away"
        )

    def db_for_write(self, model: type[Model], **_: object) -> str | None:
        return "away" if model is self.model else None

    db_for_read = db_for_write

    def end(self) -> None:
        del connections["away"]
        del connections.databases["away"]
