"""The sign of life: one row per supervisor and database, rewritten every two seconds."""

import logging
import os
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from django.db import connections, transaction
from django.db.utils import Error

from ..conf import code_version, conf
from ..dialects import Dialect, dialect_of
from ..fields import DbNow
from ..lifecycle.execute import retry
from ..models import Worker
from .session import ReconnectBackoff, Session

logger = logging.getLogger("django_dbqueue")

POOLED = (
    "%s: a connection pooler answers: our settings go with each statement, "
    "and idle workers look for jobs, since no NOTIFY is heard"
)
# What holds for a worker also where it was taken for dead meanwhile.
KEPT = ("started_at", "drain_requested_at", "stop_requested_at", "restart_requested")


@dataclass(frozen=True)
class Beat:
    """One that was written: when it was sent, by the monotonic clock, and what came with it."""

    at: float
    # Another one after every gap that may have let others take this worker for dead.
    epoch: int = 1
    # What people have asked of this worker in its row.
    stop_requested: bool = False
    restart_requested: bool = False
    drain_requested: bool = False


class Heartbeat:
    """Writes a worker's beats on one database, and knows since when they went on without a gap."""

    def __init__(
        self,
        uuid: str,
        alias: str,
        serves: Sequence[str],
        interval: float,
        timeout: float,
        *,
        last: Beat | None = None,
        pid: int = 0,
        name: str = "",
    ) -> None:
        """``serves``: the names of what it serves there; ``last``: a beat that another process has
        written for this worker; ``pid``: the worker's, if it is not this process; ``name``: what
        its options call it."""
        self.uuid = uuid
        self.alias = alias
        self.serves = serves
        self.interval = interval
        self.timeout = timeout
        self.pid = pid or os.getpid()
        self.name = name
        self.session = Session({alias}, on_connect=self._on_connect)
        self._has_told_of_pooler = False
        self.backoff = ReconnectBackoff("beating")
        self.last = last or Beat(time.monotonic())
        # Whether others can see this worker: who claims before that is missed by nobody.
        self.has_begun = last is not None
        self.good_since = time.monotonic()
        # The last beat found no database, and others would wait for it as long.
        self.is_away = False

    @property
    def counts_as_dead(self) -> bool:
        """Whether others take this worker for dead: so long ago was its last beat."""
        return time.monotonic() - self.last.at > self.timeout

    def may_judge(self) -> bool:
        """Whether this process may call others dead: only where it was never away itself."""
        unbroken = self.last.at - self.good_since >= self.timeout
        return unbroken and time.monotonic() - self.last.at < self.timeout / 2

    def beat(self, state: Mapping[str, Any]) -> Beat | None:
        """Write the columns of ``state`` and the time; None where that failed."""
        sent = time.monotonic()
        try:
            self.session.prepare()
            # On a busy SQLite a first try often fails; that is no gap in the beats.
            retry(connections[self.alias], partial(self._beat, state))
        except Error as error:
            self.session.recover(error)
            self.backoff.failed(error)
            self.is_away = connections[self.alias].connection is None
            self.good_since = time.monotonic() + self.interval
            return None
        self.backoff.worked()
        self.is_away = False
        if time.monotonic() - self.last.at > self.timeout / 2:
            self._turn_epoch()
            self.good_since = time.monotonic()
        self.last = replace(self.last, at=sent)
        return self.last

    def sign_off(self, reason: str) -> None:
        """Say why it has stopped; what is still claimed was given back before."""
        self.session.prepare()
        rows = Worker.objects.using(self.alias).filter(pk=self.uuid)
        retry(connections[self.alias], partial(rows.sign_off, reason))

    def _on_connect(self, dialect: Dialect) -> None:
        dialect.keep_to_indexes()
        if dialect.shares_sessions and not self._has_told_of_pooler:
            self._has_told_of_pooler = True
            is_wanted = conf["NOTIFY"] and conf.source("NOTIFY") != "default"
            logger.log(logging.WARNING if is_wanted else logging.INFO, POOLED, self.alias)

    def _turn_epoch(self) -> None:
        self.last = replace(self.last, epoch=self.last.epoch + 1)

    @property
    def _asked(self) -> Mapping[str, Any]:
        """What is known of a row that is gone: until it is resumed, a drained worker stays so."""
        return {"drain_requested_at": DbNow()} if self.last.drain_requested else {}

    def _beat(self, state: Mapping[str, Any], *, is_sure: bool = False) -> None:
        rows = Worker.objects.using(self.alias).filter(pk=self.uuid)
        living, now = rows.filter(stopped_at=None), DbNow()
        unasked = living.filter(stop_requested_at=None, drain_requested_at=None)
        is_there = bool(unasked.update(beat_at=now, **state))
        if is_there:
            self.last = replace(self.last, drain_requested=False)
        elif living.update(beat_at=now, **state):
            is_there = True
            columns = "stop_requested_at", "restart_requested", "drain_requested_at"
            for stop, restart, drain in rows.values_list(*columns):
                self.last = replace(
                    self.last,
                    stop_requested=self.last.stop_requested or stop is not None,
                    restart_requested=restart,
                    drain_requested=drain is not None,
                )
        if is_there:
            # Also where the answer to its INSERT was lost.
            self.has_begun = True
            return
        if not is_sure and dialect_of(connections[self.alias]).catch_up():
            self._beat(state, is_sure=True)
            return
        kept: Mapping[str, Any] = {}
        if self.has_begun:
            logger.warning("this worker was taken for dead; its claims may be others' by now")
            self._turn_epoch()
            kept = rows.values(*KEPT).first() or self._asked
        here = {"uuid": self.uuid, "host": socket.gethostname(), "pid": self.pid}
        worker = Worker(**here, **state, **kept)
        worker.serves, worker.name = list(self.serves), self.name
        worker.code_version = code_version()
        # Both or neither: else what is kept would be lost with the first of them.
        with transaction.atomic(using=self.alias):
            if self.has_begun:
                rows.delete()
            worker.save(using=self.alias, force_insert=True)
        self.has_begun = True
