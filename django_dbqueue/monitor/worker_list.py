"""Who works: the workers as people read them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.db.models import FloatField
from django.db.models.expressions import RawSQL
from django.db.utils import Error
from django.utils.translation import gettext as _

from ..conf import conf
from ..conf.queue_order import matches
from ..dialects import dialect_of
from ..lifecycle.limiter import base_of
from ..models import Worker
from ..models.worker import SILENT
from ..worker.served import all_served
from .worker_pool import WorkerPool, pool_of, seconds_of

DEAD = {"silent", "stopped"}
UNNAMED = "•••"  # in place of a worker


@dataclass(frozen=True)
class RunningJob:
    """What a worker runs, as ``table key``: for how many seconds by now, and when it is over its
    time to run; None where that is not known."""

    job: str
    seconds: float | None
    limit: float | None


@dataclass(frozen=True)
class ListedWorker:
    """A worker's row on one database: ages in seconds by that database's clock, memory in bytes.

    ``state``: alive, paused, draining or stopping (it was asked to), silent (no beat for
    ``WORKER_TIMEOUT``, so that it counts as dead) or stopped (shown for an hour, with the reason).
    """

    name: str
    uuid: str
    host: str
    pid: int
    database: str
    serves: list[str]
    started_seconds: float
    beat_seconds: float
    memory: int
    running: int
    state: str
    reason: str
    trouble: str
    jobs_per_minute: int
    pool: WorkerPool
    code_version: int
    given_name: str = ""
    jobs: list[RunningJob] = field(default_factory=list)
    stopped_seconds: float | None = None  # ago

    @property
    def lives(self) -> bool:
        return self.state not in DEAD

    @property
    def is_lost(self) -> bool:
        """It did not stop by itself, so that it may not have written what it did last."""
        return self.state == "silent" or self.reason.startswith(SILENT)

    def takes(self, job_table: str, queue: str) -> bool:
        """Whether it serves a queue; what it was told to leave out is not known."""
        names = _with_base(job_table, queue)
        for name in self.serves:
            label, _, wanted = name.partition(":")
            if label != job_table:
                continue
            if not wanted or any(matches(wanted, one) for one in names):
                return True
        return False

    def reaps(self, job_table: str) -> bool:
        """Whether it takes back jobs of a table while it lives: workers and reapers do of whichever
        table, but a server of tubes, which runs nothing itself, of what it serves alone."""
        return bool(self.pool.slots) or not self.serves or self.knows(job_table)

    def knows(self, job_table: str) -> bool:
        """Whether it serves any queue of a table."""
        return any(name.partition(":")[0] == job_table for name in self.serves)


def _with_base(job_table: str, queue: str) -> set[str]:
    """A queue, and the one that it is a lane of."""
    try:
        return {queue, base_of(apps.get_model(job_table), queue)}
    except (LookupError, ValueError):
        return {queue}  # of a table that this code does not have


def list_workers(using: str | None = None) -> list[ListedWorker]:
    """The workers of one database, or of all that hold queue tables; the living ones first."""
    found, problems = list_known(using)
    if problems:
        raise next(iter(problems.values()))
    return found


def list_known(using: str | None = None) -> tuple[list[ListedWorker], dict[str, Exception]]:
    """The same, and by alias why a database cannot be asked, unless none can."""
    aliases = [using] if using else sorted({served.using for served in all_served()})
    found: list[ListedWorker] = []
    problems: dict[str, Exception] = {}
    for alias in aliases:
        try:
            found += [_listed(worker, alias) for worker in with_ages(Worker.objects.using(alias))]
        except (Error, ImproperlyConfigured, ImportError) as error:  # the last two: no driver
            problems[alias] = error
    if problems and len(problems) == len(aliases):
        raise problems[aliases[0]]
    found.sort(key=lambda worker: (not worker.lives, worker.name, worker.database))
    return found, problems


def losses(workers: Iterable[ListedWorker]) -> str:
    """What is to be said next to figures, where a worker was lost within the hour; else ''."""
    if not any(one.is_lost for one in workers):
        return ""
    return _("A worker was lost: what it did in its last seconds is not in these figures.")


def without_names(text: str, workers: Iterable[ListedWorker]) -> str:
    """For those who may not see workers: neither hosts nor names of theirs are in it."""
    for one in workers:
        text = text.replace(one.name, UNNAMED)
    return text


def with_ages(workers: Any) -> Any:
    """Rows with the ages that ``state_of`` looks at, in seconds by their database's clock."""
    alias = workers.db
    columns = {"started_age": "started_at", "beat_age": "beat_at", "stopped_age": "stopped_at"}
    return workers.annotate(**{name: age_of(column, alias) for name, column in columns.items()})


def age_of(column: str, alias: str) -> RawSQL:
    """The seconds since an instant in a column, by the database's clock."""
    sql = f"-({dialect_of(connections[alias]).seconds_until(column)})"
    return RawSQL(sql, (), FloatField())  # noqa: S611  # the names are our own


def _listed(worker: Any, alias: str) -> ListedWorker:
    return ListedWorker(
        name=str(worker),
        uuid=worker.uuid,
        host=worker.host,
        pid=worker.pid,
        database=alias,
        serves=served_by(worker),
        started_seconds=_rounded(worker.started_age),
        beat_seconds=_rounded(worker.beat_age),
        memory=_whole(worker.memory),
        running=len(running_jobs(worker)),
        state=state_of(worker),
        reason=worker.stop_reason,
        trouble=worker.trouble,
        jobs_per_minute=_whole(worker.jobs_per_minute),
        given_name=worker.name,
        pool=pool_of(worker),
        code_version=_whole(worker.code_version),
        jobs=_with_ages(worker),
        stopped_seconds=None if worker.stopped_at is None else _rounded(worker.stopped_age),
    )


def _with_ages(worker: Any) -> list[RunningJob]:
    """At this moment: since the last beat they went on."""
    since = max(0.0, float(worker.beat_age or 0))
    return [
        RunningJob(one.job, None if one.seconds is None else one.seconds + since, one.limit)
        for one in jobs_of(worker)
    ]


def _rounded(seconds: float | None) -> float:
    # None where somebody wrote by hand what is no instant.
    return 0.0 if seconds is None else round(float(seconds), 1)


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0  # SQLite keeps any text


def served_by(worker: Any) -> list[str]:
    """What a worker serves, as ``table`` or ``table:queue``."""
    return [str(name) for name in worker.serves] if isinstance(worker.serves, list) else []


def running_jobs(worker: Any) -> list[tuple[str, float | None]]:
    """What a worker runs, as ``table key``, and for how many seconds it did at its last beat."""
    return [(one.job, one.seconds) for one in jobs_of(worker)]


def jobs_of(worker: Any) -> list[RunningJob]:
    """What its row says that it runs, at its last beat."""
    lists = worker.running.values() if isinstance(worker.running, dict) else ()
    ones = [one for jobs in lists if isinstance(jobs, list) for one in jobs]
    return [
        RunningJob(
            str(one.get("job")), seconds_of(one.get("seconds")), seconds_of(one.get("limit"))
        )
        for one in ones
        if isinstance(one, dict)
    ]


def state_of(worker: Any) -> str:
    """In one word, of a row ``with_ages``."""
    if worker.stopped_at is not None:
        return "stopped"
    if worker.beat_age is None or worker.beat_age > conf["WORKER_TIMEOUT"]:
        return "silent"
    if worker.stop_requested_at is not None or worker.stop_reason:
        return "stopping"
    if worker.drain_requested_at is not None:
        return "draining"
    return "paused" if worker.paused else "alive"
