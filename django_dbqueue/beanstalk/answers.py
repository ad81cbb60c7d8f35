"""What is answered outside the transaction of a turn: questions, ``use``, ``watch``, pauses."""

import logging
import math
import os
import platform
import resource
import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.db import transaction
from django.db.models import QuerySet

from ..dialects.types import RowsLocked
from ..lifecycle.policy import MAX_SECONDS
from ..lifecycle.table import Table
from ..models import Queue
from ..states import Status
from . import commands, replies, rows
from .faults import FAULTS, is_to_be_repeated
from .rows import ID_MAX, Body
from .state import DEFAULT_TUBE, Client, Pause, State

VERSION = "1.13"  # of the protocol
# Where a row's pause differs by more from the one that we know, somebody else has changed it.
ALIKE_SECONDS = 2.0
INSTANCE = uuid.uuid4().hex[:16]
STARTED_AT = time.monotonic()
C = TypeVar("C")
logger = logging.getLogger("django_dbqueue")


@dataclass(frozen=True, slots=True)
class Asked(Generic[C]):
    """A command, who gives it, and what it is about."""

    table: Table
    state: State
    client: Client
    command: C
    # What was looked up for others who came before this answer was begun.
    known: dict[str, Any]


# By a command, the name that the statistics know it by.
NAMES: dict[type[Any], str] = {
    commands.Put: "put",
    commands.Peek: "peek",
    commands.PeekReady: "peek-ready",
    commands.PeekDelayed: "peek-delayed",
    commands.PeekBuried: "peek-buried",
    commands.Reserve: "reserve",
    commands.ReserveWithTimeout: "reserve-with-timeout",
    commands.Delete: "delete",
    commands.Release: "release",
    commands.Use: "use",
    commands.Watch: "watch",
    commands.Ignore: "ignore",
    commands.Bury: "bury",
    commands.Kick: "kick",
    commands.Touch: "touch",
    commands.Stats: "stats",
    commands.StatsJob: "stats-job",
    commands.StatsTube: "stats-tube",
    commands.ListTubes: "list-tubes",
    commands.ListTubeUsed: "list-tube-used",
    commands.ListTubesWatched: "list-tubes-watched",
    commands.PauseTube: "pause-tube",
}


def use(asked: Asked[commands.Use]) -> bytes:
    _begin(asked.table, asked.state, asked.command.tube)
    asked.client.used = asked.command.tube
    return replies.line("USING", asked.client.used)


def watch(asked: Asked[commands.Watch]) -> bytes:
    if asked.command.tube not in asked.client.watched:
        _begin(asked.table, asked.state, asked.command.tube)
        asked.client.watched.append(asked.command.tube)
    return replies.line("WATCHING", len(asked.client.watched))


def ignore(asked: Asked[commands.Ignore]) -> bytes:
    if asked.command.tube in asked.client.watched:
        if len(asked.client.watched) == 1:
            return replies.NOT_IGNORED
        asked.client.watched.remove(asked.command.tube)
    return replies.line("WATCHING", len(asked.client.watched))


def _begin(table: Table, state: State, tube: str) -> None:
    """A tube that had ceased to exist is counted from nothing."""
    if state.knows_too_many():
        state.keep_tubes(_living(state, rows.tubes_with_jobs(table)))
    if state.knows(tube) and not _exists(table, state, tube):
        state.forget_tube(tube)
    state.order.setdefault(tube)


def _exists(table: Table, state: State, tube: str) -> bool:
    return tube == DEFAULT_TUBE or state.is_used(tube) or rows.has_jobs(table, tube)


def list_tube_used(asked: Asked[Any]) -> bytes:
    return replies.line("USING", asked.client.used)


def list_tubes_watched(asked: Asked[Any]) -> bytes:
    return replies.names(asked.client.watched)


def list_tubes(asked: Asked[Any]) -> bytes:
    return replies.names(_tubes(asked))


def _tubes(asked: Asked[Any]) -> list[str]:
    """Those that exist, as they were made."""
    if "tubes" not in asked.known:
        asked.known["tubes"] = rows.tubes_with_jobs(asked.table)
    asked.state.keep_tubes(_living(asked.state, asked.known["tubes"]))
    return list(asked.state.order)


def _living(state: State, with_jobs: set[str]) -> set[str]:
    living = {DEFAULT_TUBE} | with_jobs
    for one in state.clients:
        living |= {one.used, *one.watched}
    return living


def peek(asked: Asked[commands.Peek]) -> bytes:
    return _found(
        rows.body_of(asked.table, asked.command.id) if asked.command.id <= ID_MAX else None
    )


def peek_ready(asked: Asked[Any]) -> bytes:
    return _found(rows.first(asked.table, asked.client.used, Status.READY))


def peek_delayed(asked: Asked[Any]) -> bytes:
    return _found(rows.first(asked.table, asked.client.used, Status.DELAYED))


def peek_buried(asked: Asked[Any]) -> bytes:
    return _found(rows.first(asked.table, asked.client.used, Status.BURIED))


def _found(body: Body | None) -> bytes:
    return replies.NOT_FOUND if body is None else replies.job("FOUND", body)


def pause_tube(asked: Asked[commands.PauseTube]) -> bytes:
    """For all who serve the table: other servers, and workers of Django's."""
    if not _exists(asked.table, asked.state, asked.command.tube):
        return replies.NOT_FOUND
    queues = Queue.objects.db_manager(asked.table.connection.alias)
    _raise_locked(asked.table, queues.filter(name=asked.command.tube))
    if asked.command.seconds:
        # A row's pause ends after some years; what was asked for is told all the same.
        seconds = min(asked.command.seconds, MAX_SECONDS)
        queues.pause(asked.table.job_table, asked.command.tube, seconds, "pause-tube")
        ends_at = time.monotonic() + asked.command.seconds
        asked.state.pauses[asked.command.tube] = Pause(asked.command.seconds, ends_at)
    else:
        queues.resume(asked.table.job_table, asked.command.tube)
        asked.state.pauses.pop(asked.command.tube, None)
    asked.state.tube(asked.command.tube).pauses += 1
    return replies.PAUSED


def _raise_locked(table: Table, queues: QuerySet[Queue]) -> None:
    """Where a transaction has locked them: to wait for it would hold up everybody."""
    skips = table.connection.features.has_select_for_update_skip_locked
    mine = queues.filter(job_table=table.job_table)
    with transaction.atomic(using=table.connection.alias):
        if skips and mine.count() > len(mine.select_for_update(skip_locked=True)):
            raise RowsLocked(f"the pause of a tube of {table.label} is locked by a transaction")


def pauses_of(table: Table, known: dict[str, Pause]) -> dict[str, Pause]:
    """The tubes that are paused now, by a client or by an operator."""
    found: dict[str, Pause] = {}
    for name, left in rows.pauses(table):
        pause = known.get(name)
        # A row's pause ends after some years.
        beyond = 0 if pause is None else max(0, pause.seconds - MAX_SECONDS)
        if pause is None or abs(pause.left - beyond - left) > ALIKE_SECONDS:
            pause = Pause(math.ceil(left - rows.RESOLUTION), time.monotonic() + left)
        found[name] = pause
    return found


def stats_job(asked: Asked[commands.StatsJob]) -> bytes:
    found = rows.stats_of(asked.table, asked.command.id) if asked.command.id <= ID_MAX else None
    return replies.NOT_FOUND if found is None else replies.job_stats(found)


def stats_tube(asked: Asked[commands.StatsTube]) -> bytes:
    name = asked.command.tube
    if not _exists(asked.table, asked.state, name):
        return replies.NOT_FOUND
    counts, stats, pause = (
        rows.counts(asked.table, name),
        asked.state.tube(name),
        asked.state.pause_of(name),
    )
    found: dict[str, Any] = {"name": replies.quoted(name)}
    for kind in ("urgent", "ready", "reserved", "delayed", "buried"):
        found[f"current-jobs-{kind}"] = counts[kind]
    found |= {
        "total-jobs": stats.total_jobs,
        "current-using": sum(one.used == name for one in asked.state.clients),
        "current-watching": sum(name in one.watched for one in asked.state.clients),
        "current-waiting": sum(name in one.watched for one in asked.state.waiters),
        "cmd-delete": stats.deletes,
        "cmd-pause-tube": stats.pauses,
        "pause": pause.seconds if pause else 0,
        "pause-time-left": max(0, int(pause.left)) if pause else 0,
    }
    return replies.values(found)


def stats(asked: Asked[Any]) -> bytes:
    counts, used = rows.counts(asked.table), resource.getrusage(resource.RUSAGE_SELF)
    kinds = ("urgent", "ready", "reserved", "delayed", "buried")
    found: dict[str, Any] = {f"current-jobs-{kind}": counts[kind] for kind in kinds}
    found |= {f"cmd-{name}": asked.state.commands[kind] for kind, name in NAMES.items()}
    found |= {
        "job-timeouts": asked.state.timeouts,
        "total-jobs": asked.state.total_jobs,
        "max-job-size": asked.state.job_size_max,
        "current-tubes": len(_tubes(asked)),
        "current-connections": len(asked.state.clients),
        "current-producers": sum(one.is_producer for one in asked.state.clients),
        "current-workers": sum(one.is_worker for one in asked.state.clients),
        "current-waiting": len(asked.state.waiters),
        "total-connections": asked.state.connections,
        "pid": os.getpid(),
        "version": replies.quoted(VERSION),
        "rusage-utime": f"{used.ru_utime:.6f}",
        "rusage-stime": f"{used.ru_stime:.6f}",
        "uptime": int(time.monotonic() - STARTED_AT),
        "binlog-oldest-index": 0,
        "binlog-current-index": 0,
        "binlog-records-migrated": 0,
        "binlog-records-written": 0,
        "binlog-max-size": 0,
        "draining": "true" if asked.state.is_draining else "false",
        "id": INSTANCE,
        "hostname": replies.quoted(socket.gethostname()),
        "os": replies.quoted(platform.version()),
        "platform": replies.quoted(platform.machine()),
    }
    return replies.values(found)


def answered(asked: Asked[Any]) -> bytes:
    """A command that cannot be carried out is an error of its client alone."""
    answer = ANSWERS[type(asked.command)]
    try:
        return answer(asked)
    except FAULTS as error:
        if is_to_be_repeated(asked.table, error):
            raise
        logger.exception("%s cannot be carried out", type(asked.command).__name__)
        return replies.INTERNAL_ERROR


ANSWERS: dict[type[Any], Callable[[Asked[Any]], bytes]] = {
    commands.Use: use,
    commands.Watch: watch,
    commands.Ignore: ignore,
    commands.ListTubeUsed: list_tube_used,
    commands.ListTubesWatched: list_tubes_watched,
    commands.ListTubes: list_tubes,
    commands.Peek: peek,
    commands.PeekReady: peek_ready,
    commands.PeekDelayed: peek_delayed,
    commands.PeekBuried: peek_buried,
    commands.PauseTube: pause_tube,
    commands.StatsJob: stats_job,
    commands.StatsTube: stats_tube,
    commands.Stats: stats,
}
