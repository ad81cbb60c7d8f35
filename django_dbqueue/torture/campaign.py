"""One torture: processes start, faults come, all heals and drains, and is judged."""

import json
import threading
import time
from pathlib import Path
from typing import Any

from django.db.utils import Error

from ..conf import conf
from ..dialects import dialect_of
from ..lifecycle.execute import rows
from ..lifecycle.policy import MAX_CRASHES
from ..states import Status
from .checker import check
from .database_faults import here
from .fault_injector import FaultInjector
from .fleet import Group, environment, python
from .history import Event, read
from .models import ArchivedTestJob, Effect, TestJob
from .options import Plan
from .proxy import Proxy
from .verdicts import Report, Settings

STOP_SECONDS = 60.0  # seconds
THREADS_MAX = 2
FINISHED = (Status.DONE, Status.BURIED)
_nap = threading.Event()


class Campaign:
    """``run`` returns the verdicts, the events and whatever else went wrong."""

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        config: dict[str, Any],
        proxied: dict[str, Any] | None = None,
        proxy: Proxy | None = None,
    ) -> None:
        """``proxied``: the database as the workers reach it, through the ``proxy``."""
        self.plan = plan
        self.proxy = proxy
        self.proxied = proxied or config
        self.folder = folder
        self.config = config
        self.troubles: list[str] = []
        rate = plan.jobs_per_second / plan.producers
        produce = "django_dbqueue.torture", "produce"
        self.producers = [
            self._group(f"producer-{n}", *produce, str(n), str(rate), str(plan.long_jobs))
            for n in range(plan.producers)
        ]
        run = "django", "runworker", "--shutdown-timeout", "20", "--processes", str(plan.children)
        self.workers = [
            self._group(
                *(f"worker-{n}", *run, "--threads", str(1 + n % THREADS_MAX)),
                skew=plan.skew * (n % 3 - 1),
                is_worker=True,
            )
            for n in range(plan.workers)
        ]
        self.workers.append(self._group("reaper-0", "django", "runreaper"))

    def _group(self, who: str, *command: str, skew: float = 0, is_worker: bool = False) -> Group:
        config = self.config if who.startswith("producer") else self.proxied
        known = environment(config, str(self.folder), who, skew, self.plan.seed)
        return Group(who, python(*command), known, self.folder / f"{who}.log", is_worker)

    def run(self) -> tuple[Report, list[Event]]:
        groups = [*self.workers, *self.producers]
        try:
            for group in groups:
                group.start()
            FaultInjector(self.plan, groups, self.proxy).run()
            self._end(self.producers)
            self._drain()
            self._end(self.workers)
        finally:
            for group in groups:
                group.kill()
        return self._judge()

    def _end(self, groups: list[Group]) -> None:
        for group in groups:
            group.ask_to_stop()
        for group in groups:
            group.end(STOP_SECONDS)
            for code in group.own_ends:
                self.troubles.append(f"{group.who} ended by itself, with {code}: see {group.log}")

    def _drain(self) -> None:
        """Until nothing is left to do, or nothing gets less for longer than any claim may last."""
        patience = TestJob.policy().time_to_run + 6 * conf["WORKER_TIMEOUT"]
        fewest, give_up = None, time.monotonic() + patience
        while time.monotonic() < give_up:
            for group in self.workers:
                group.revive()
            try:
                left = int(TestJob.objects.exclude(status__in=FINISHED).count())
            except Error:
                here().close()  # the database does not say
            else:
                if left == 0:
                    return
                if fewest is None or left < fewest:
                    fewest, give_up = left, time.monotonic() + patience
            _nap.wait(0.2)
        self.troubles.append(f"jobs that were not finished in time: {fewest}")

    def _judge(self) -> tuple[Report, list[Event]]:
        events = read(self.folder)
        dump = [*_rows(TestJob, "live"), *_rows(ArchivedTestJob, "archive")]
        told = Settings(
            max_attempts=TestJob.policy().max_attempts,
            max_crashes=MAX_CRASHES,
            time_to_run=TestJob.policy().time_to_run,
            threads=THREADS_MAX,
            beat_interval=conf["BEAT_INTERVAL"],
            worker_timeout=conf["WORKER_TIMEOUT"],
            reap_interval=conf["REAP_INTERVAL"],
        )
        effects = list(Effect.objects.values("mark"))
        (self.folder / "rows.json").write_text(json.dumps({"rows": dump, "effects": effects}))
        report = check(events, dump, effects, told)
        if report.figures.jobs == 0:
            self.troubles.append(
                f"no job was enqueued, so nothing is proved: see {self.producers[0].log}, or give "
                "more --minutes"
            )
        return report, events


COLUMNS = ("mark", "queue", "status", "owner", "attempts", "crashes", "errors", "dedup_key")


def _rows(model: Any, place: str) -> list[dict[str, Any]]:
    labels, dialect = dict(Status.choices), dialect_of(here())
    name, pk = here().ops.quote_name(model._meta.db_table), model._meta.pk.column
    sql = f"SELECT {pk}, {dialect.seconds_until('retry_at')} FROM {name}"
    found = rows(here(), f"{sql} WHERE retry_at IS NOT NULL", [])
    # By the database's clock, how long ago each row was to move by itself.
    past = {key: -float(seconds or 0) for key, seconds in found}
    return [
        {name: row[name] for name in COLUMNS}
        | {
            "place": place,
            "key": row["pk"],
            "status": labels.get(row["status"], str(row["status"])),
            "retry_at_past_seconds": past.get(row["pk"]),
            "finished": row["finished_at"] is not None,
        }
        for row in model._base_manager.values("pk", "finished_at", *COLUMNS)
    ]
