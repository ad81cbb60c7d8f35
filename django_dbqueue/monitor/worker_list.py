"""Who works: the workers as people read them, and asking them to stop."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db import connections
from django.db.models import FloatField
from django.db.models.expressions import RawSQL

from ..conf import conf
from ..dialects import dialect_of
from ..fields import DbNow
from ..models import Worker
from ..worker.served import all_served

SHORTEST = 4  # characters of a uuid's beginning
DEAD = {"silent", "stopped"}


class UnknownWorker(ValueError):
    """A name that means no living worker, or more than one; says who lives."""


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

    @property
    def lives(self) -> bool:
        return self.state not in DEAD

    def takes(self, job_table: str, queue: str) -> bool:
        """Whether it serves a queue; what it was told to leave out is not known."""
        return bool({job_table, f"{job_table}:{queue}"} & set(self.serves))

    def knows(self, job_table: str) -> bool:
        """Whether it serves any queue of a table."""
        return any(name.partition(":")[0] == job_table for name in self.serves)


def list_workers(using: str | None = None) -> list[ListedWorker]:
    """The workers of one database, or of all that hold queue tables; the living ones first."""
    members = [member for alias in _aliases(using) for member in _members(alias)]
    return sorted(members, key=lambda member: (not member.lives, member.name, member.database))


def request_stop(name: str, using: str | None = None) -> list[ListedWorker]:
    """Ask the living workers that a name means to stop; which they are.

    A name is a uuid or its beginning (at least 4 characters), ``host:pid``, or a host, which means
    all of its workers. ``UnknownWorker`` when it is none of these, or cannot be told apart.
    """
    return _request(name, using, stop_requested_at=DbNow())


def request_drain(name: str, using: str | None = None) -> list[ListedWorker]:
    """Ask them to claim nothing more, to finish what they have, and to live on."""
    return _request(name, using, drain_requested_at=DbNow())


def request_resume(name: str, using: str | None = None) -> list[ListedWorker]:
    """Let those that were asked to drain go on."""
    return _request(name, using, drain_requested_at=None)


def _request(name: str, using: str | None, **columns: Any) -> list[ListedWorker]:
    chosen = _named(name, [member for member in list_workers(using) if member.lives])
    for member in chosen:
        Worker.objects.using(member.database).filter(pk=member.uuid).update(**columns)
    return chosen


def _aliases(using: str | None) -> list[str]:
    return [using] if using else sorted({served.using for served in all_served()})


def _members(alias: str) -> Iterator[ListedWorker]:
    for worker in with_ages(Worker.objects.using(alias)):
        yield _member(worker, alias)


def with_ages(workers: Any) -> Any:
    """Rows with the ages that ``state_of`` looks at, in seconds by their database's clock."""
    alias = workers.db
    return workers.annotate(started_age=_age("started_at", alias), beat_age=_age("beat_at", alias))


def _age(column: str, alias: str) -> RawSQL:
    sql = f"-({dialect_of(connections[alias]).seconds_until(column)})"
    return RawSQL(sql, (), FloatField())  # noqa: S611  # the names are our own


def _member(worker: Any, alias: str) -> ListedWorker:
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
    )


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
    lists = worker.running.values() if isinstance(worker.running, dict) else ()
    ones = [one for jobs in lists if isinstance(jobs, list) for one in jobs]
    found = [(str(one.get("job")), one.get("seconds")) for one in ones if isinstance(one, dict)]
    return [(job, s if isinstance(s, int | float) else None) for job, s in found]


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


def _named(name: str, living: list[ListedWorker]) -> list[ListedWorker]:
    wanted = name.lower()
    by_host = [m for m in living if wanted in {m.host.lower(), f"{m.host}:{m.pid}".lower()}]
    prefix = wanted.replace("-", "")
    by_uuid = [m for m in living if len(prefix) >= SHORTEST and m.uuid.startswith(prefix)]
    one_meaning = not (by_host and by_uuid) and len({m.uuid for m in by_uuid}) <= 1
    if one_meaning and (by_host or by_uuid):
        return by_host or by_uuid
    problem = "no living worker" if one_meaning else "several workers"
    alive = "".join(f"\n  {m.host}:{m.pid}  {m.uuid}" for m in living) or " none"
    raise UnknownWorker(f"{name!r} means {problem}. Alive:{alive}")
