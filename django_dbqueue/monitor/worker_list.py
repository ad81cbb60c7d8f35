"""Who works: the workers as people read them, and asking them to stop."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
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
from ..exceptions import Told, gettext_noop
from ..fields import DbNow
from ..lifecycle.limiter import base_of
from ..models import Worker
from ..models.worker import SILENT
from ..worker.served import all_served
from .worker_pool import WorkerPool, pool_of, seconds_of

UUID_PREFIX_MIN = 4  # characters
DEAD = {"silent", "stopped"}
# What is written into a row by what is asked of its worker.
ASKS: dict[str, dict[str, Any]] = {
    "stop": {"stop_requested_at": DbNow(), "restart_requested": False},
    "restart": {"stop_requested_at": DbNow(), "restart_requested": True},
    "drain": {"drain_requested_at": DbNow()},
    "resume": {"drain_requested_at": None},
}
UNNAMED = "•••"  # in place of a worker


class UnknownWorker(Told):
    """A name that means no living worker, or more than one; says who lives. By alias in
    ``problems``: why a database cannot be asked, on which it may be known."""

    problems: Mapping[str, Exception] = MappingProxyType({})


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


def request_stop(name: str, using: str | None = None) -> list[ListedWorker]:
    """Ask the living workers that a name means to stop; which they are.

    A name is a uuid or its beginning (at least 4 characters), ``host:pid``, or a host or what
    ``--name`` says, which means all such workers. ``UnknownWorker`` when it is none of these, or
    cannot be told apart.
    """
    return _request(name, using, "stop")


def request_restart(name: str, using: str | None = None) -> list[ListedWorker]:
    """Ask them to stop with exit code 12: then systemd, a container or a server starts them again,
    with the code that is there by then."""
    return _request(name, using, "restart")


def request_drain(name: str, using: str | None = None) -> list[ListedWorker]:
    """Ask them to claim nothing more, to finish what they have, and to live on."""
    return _request(name, using, "drain")


def request_resume(name: str, using: str | None = None) -> list[ListedWorker]:
    """Let those that were asked to drain go on."""
    return _request(name, using, "resume")


def _request(name: str, using: str | None, verb: str) -> list[ListedWorker]:
    chosen = _named(name, [worker for worker in list_workers(using) if worker.lives])
    for worker in chosen:
        _ask(worker, verb)
    return chosen


def _ask(worker: ListedWorker, verb: str) -> None:
    Worker.objects.using(worker.database).filter(pk=worker.uuid).update(**ASKS[verb])


def request_known(
    verb: str, names: Sequence[str] = (), using: str | None = None
) -> tuple[list[ListedWorker], dict[str, Exception]]:
    """Ask several names, or all that live, on the databases that can be asked; by alias why one
    cannot, unless none can. Where a name is unknown, nobody is asked."""
    found, problems = list_known(using)
    living = [worker for worker in found if worker.lives]
    try:
        chosen = [worker for name in names for worker in _named(name, living)] if names else living
    except UnknownWorker as error:
        error.problems = problems
        raise
    asked = []
    for worker in chosen:
        try:
            _ask(worker, verb)
            asked.append(worker)
        except Error as error:
            problems[worker.database] = error
    if chosen and not asked:
        raise problems[chosen[0].database]
    return asked, problems


def _named(name: str, living: list[ListedWorker]) -> list[ListedWorker]:
    wanted = name.lower()
    by_host = [w for w in living if wanted in {w.host.lower(), f"{w.host}:{w.pid}".lower()}]
    prefix = wanted.replace("-", "")
    by_uuid = [w for w in living if len(prefix) >= UUID_PREFIX_MIN and w.uuid.startswith(prefix)]
    by_name = [w for w in living if w.given_name and wanted == w.given_name.lower()]
    meanings = [found for found in (by_host, by_name, by_uuid) if found]
    one_meaning = len(meanings) <= 1 and len({w.uuid for w in by_uuid}) <= 1
    chosen = meanings[0] if meanings else []
    if not one_meaning or not chosen:
        text = gettext_noop("%(name)s means several workers. Alive:%(alive)s")
        if one_meaning:
            text = gettext_noop("%(name)s means no living worker. Alive:%(alive)s")
        if not living:
            text = gettext_noop("%(name)s means no living worker. Alive: none")
        alive = "".join(f"\n  {w.host}:{w.pid}  {w.uuid}" for w in living)
        raise UnknownWorker(text, name=repr(name), alive=alive)
    return chosen


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
