"""The metrics at a worker's ``--probe-port``: its own, and those of all queues."""

import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTime
from http import HTTPStatus
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from ..worker import probe_page
from ..worker.options import Options
from ..worker.probe_page import PAGES, Answer, Phase, ProbePage
from ..worker.served import Served, all_served
from ..worker.session import STATEMENT_WATCHDOG, connect_impatiently
from .catalogue import OF_QUEUES, OF_WORKER

READ_SECONDS_MAX = 5.0  # that a request waits for the databases


def subscribe() -> None:
    """From here on workers' probe ports have these pages."""
    PAGES["/metrics"] = lambda page, options: WorkerPage(page, options, of_queues=True).answer
    PAGES["/metrics/worker"] = lambda page, options: WorkerPage(page, options).answer


class WorkerPage:
    """Where the databases are too slow, they are not up; what the worker says itself is told."""

    def __init__(self, page: ProbePage, options: Options, *, of_queues: bool = False) -> None:
        self.page = page
        self.tables = _tables(options, page.aliases) if of_queues else []
        self._lock = threading.Lock()
        self._reader = ThreadPoolExecutor(1, "metrics")
        self._reading: Future[Any] | None = None

    def answer(self, accept: str) -> Answer:
        try:
            from .prometheus import encoded  # noqa: PLC0415  # an extra
        except ImproperlyConfigured as error:
            return Answer(f"{error}\n".encode(), HTTPStatus.NOT_IMPLEMENTED)
        families = list(own_families(self.page))
        if self.tables:
            families += self._queues()
        body, content_type = encoded(families, accept)
        return Answer(body, content_type=content_type)

    def _queues(self) -> Iterable[Any]:
        """Of one reading, however many ask for it at once."""
        from .prometheus import Families  # noqa: PLC0415

        with self._lock:
            if self._reading is None or self._reading.done():
                self._reading = self._reader.submit(_read, self.tables)
            reading = self._reading
        try:
            return list(reading.result(READ_SECONDS_MAX))
        except NotInTime:
            away = Families(OF_QUEUES)
            for alias in self.page.aliases:
                away.add("dbqueue_up", [alias], 0)
            return away


def _tables(options: Options, aliases: Iterable[str]) -> list[Served]:
    """All queue tables of its databases, and those that it serves."""
    here = [one for one in all_served() if one.using in aliases]
    return [
        Served(*place)
        for place in dict.fromkeys((o.model, o.using) for o in [*here, *options.served])
    ]


def _read(tables: list[Served]) -> Any:
    """In the reader's thread, whose connections are open for as long as this takes."""
    from .prometheus import queue_families  # noqa: PLC0415

    for alias in {one.using for one in tables}:
        connect_impatiently(connections[alias])
        STATEMENT_WATCHDOG.watch(connections[alias])
    try:
        return queue_families(tables)
    finally:
        connections.close_all()


def own_families(page: ProbePage) -> Any:
    """What the worker's memory says, without any database."""
    from .prometheus import Families  # noqa: PLC0415

    families, numbers, now = Families(OF_WORKER), page.numbers, time.monotonic()
    told = {
        "jobs_started": numbers[probe_page.JOBS],
        "running_jobs": numbers[probe_page.RUNNING],
        "children": numbers[probe_page.CHILDREN],
        "memory_bytes": numbers[probe_page.MEMORY],
        "unrecorded_jobs": numbers[probe_page.STUCK],
        "paused": numbers[probe_page.PAUSED],
        "stopping": page.phase is Phase.STOPPING,
    }
    for name, value in told.items():
        families.add(f"dbqueue_worker_{name}", [], value)
    for alias, at in page.beaten_at().items():
        if at:
            families.add("dbqueue_worker_beat_age_seconds", [alias], now - at)
    return families
