"""The sign of life: one row per supervisor and database, rewritten every two seconds."""

import logging
import os
import socket
import time
from collections.abc import Mapping, Sequence
from functools import partial
from operator import methodcaller
from typing import Any

from django.db import connections
from django.db.utils import Error

from ..fields import DbNow
from ..lifecycle.execute import again
from ..models import Worker
from .session import Patience, Session

logger = logging.getLogger("django_dbqueue")


class Beats:
    """Writes the beats of one worker, and knows since when they went on without a gap.

    The epoch changes after every gap that may have let others take this worker for dead.
    """

    def __init__(
        self, uuid: str, serves: Mapping[str, Sequence[str]], interval: float, timeout: float
    ) -> None:
        """``serves``: by database alias the names of what it serves there."""
        self.uuid = uuid
        self.serves = serves
        self.aliases = sorted(serves)
        self.interval = interval
        self.timeout = timeout
        self.session = Session(set(serves), greet=methodcaller("keep_to_indexes"))
        self._sessions = {alias: Session({alias}) for alias in self.aliases}
        self.patience = Patience("beating")
        self.epoch = 1
        # Whether a person asked this worker to stop.
        self.stop_requested = False
        # Where it was asked to claim nothing more.
        self._drains: set[str] = set()
        self.next_at = 0.0
        self._registered: set[str] = set()
        self.last_good = time.monotonic()
        self.good_since = time.monotonic()

    @property
    def drain_requested(self) -> bool:
        return bool(self._drains)

    @property
    def has_begun(self) -> bool:
        """Whether others can see this worker: who claims before that is missed by nobody."""
        return self._registered == set(self.aliases)

    def wait(self) -> float:
        """Seconds until the next beat is due."""
        return max(0.0, self.next_at - time.monotonic())

    def may_judge(self) -> bool:
        """Whether others that look dead may be called dead: only by who was never away itself."""
        now = time.monotonic()
        unbroken = self.last_good - self.good_since >= self.timeout
        return unbroken and now - self.last_good < self.timeout / 2

    def beat(self, state: Mapping[str, Any]) -> bool:
        """Write the columns of ``state`` and the time on every database; False, and no beat is
        counted, unless all of them took it."""
        self.next_at = time.monotonic() + self.interval
        # All are tried: where one is away, our row on the others must not look dead.
        errors = [error for alias in self.aliases if (error := self._try(alias, state))]
        if errors:
            self.patience.failed(errors[0])
            self.good_since = time.monotonic() + self.interval
            self.next_at = time.monotonic() + min(1.0, self.interval)
            return False
        self._count()
        return True

    def sign_off(self, reason: str) -> None:
        """Say why it has stopped; what is still claimed was given back before."""
        self.session.prepare()
        for alias in self.aliases:
            rows = Worker.objects.using(alias).filter(pk=self.uuid)
            again(connections[alias], partial(rows.sign_off, reason))

    def _count(self) -> None:
        now = time.monotonic()
        if now - self.last_good > self.timeout / 2:
            self.epoch += 1
            self.good_since = now
        self.last_good = now
        self.patience.worked()

    def _try(self, alias: str, state: Mapping[str, Any]) -> Error | None:
        session = self._sessions[alias]
        try:
            session.prepare()
            # On a busy SQLite a first try often fails; that is no gap in the beats.
            again(connections[alias], partial(self._beat, alias, state))
        except Error as error:
            session.recover(error)
            return error
        return None

    def _beat(self, alias: str, state: Mapping[str, Any]) -> None:
        rows = Worker.objects.using(alias).filter(pk=self.uuid)
        living, now = rows.filter(stopped_at=None), DbNow()
        unasked = living.filter(stop_requested_at=None, drain_requested_at=None)
        is_there = bool(unasked.update(beat_at=now, **state))
        if is_there:
            self._drains.discard(alias)
        elif living.update(beat_at=now, **state):
            is_there = True
            self._heed(alias, rows)
        if is_there:
            # Also where the answer to its INSERT was lost.
            self._registered.add(alias)
            return
        if alias in self._registered:
            logger.warning("this worker was taken for dead; its claims may be others' by now")
            self.epoch += 1
            rows.delete()
        worker = Worker(uuid=self.uuid, host=socket.gethostname(), pid=os.getpid(), **state)
        worker.serves = list(self.serves[alias])
        worker.save(using=alias, force_insert=True)
        self._registered.add(alias)

    def _heed(self, alias: str, rows: Any) -> None:
        """What people have asked of us in our row."""
        for stop, drain in rows.values_list("stop_requested_at", "drain_requested_at"):
            self.stop_requested = self.stop_requested or stop is not None
            (self._drains.discard if drain is None else self._drains.add)(alias)
