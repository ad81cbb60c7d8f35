"""The server's sign of life, by which others know whose claims to give back, and its reaper."""

import logging
import threading
import time
from collections.abc import Callable

from django.db import connections
from django.db.utils import Error

from .. import events
from ..guard import guarded
from ..lifecycle.table import table_of
from ..worker.children import resident
from ..worker.heartbeat import Heartbeat
from ..worker.options import REQUESTED, RESTART_REQUESTED, BeatTiming, StopReason
from ..worker.reaper import Reaper
from ..worker.session import STATEMENT_WATCHDOG, ReconnectBackoff
from .models import TubeJob

logger = logging.getLogger("django_dbqueue")

REAP_SECONDS = 1.0


class Keeper:
    """A thread that beats, and gives back what dead servers and workers held."""

    def __init__(
        self,
        uuid: str,
        using: str,
        timing: BeatTiming,
        on_stop_request: Callable[[StopReason], object],
        on_drain_request: Callable[[bool], object],
    ) -> None:
        """``on_drain_request`` is called at each beat: whether people have asked for it."""
        interval, timeout = timing["beat_interval"], timing["worker_timeout"]
        self.timing = timing
        self.heartbeat = Heartbeat(uuid, using, [TubeJob._meta.label_lower], interval, timeout)
        self.on_stop_request = on_stop_request
        self.on_drain_request = on_drain_request
        self._backoff = ReconnectBackoff("reaping")
        self._stop = threading.Event()
        self._beat_at = 0.0
        self._thread = threading.Thread(target=self._run, name="keeper")

    def start(self) -> None:
        self._thread.start()

    def stop(self, reason: str) -> None:
        """Sign off, once nothing is claimed any more."""
        self._stop.set()
        self._thread.join()
        self._reason = reason
        thread = threading.Thread(target=guarded, args=[self._sign_off])
        thread.start()
        thread.join(self.timing["beat_interval"])

    def _run(self) -> None:
        self._reaper = Reaper(
            [table_of(TubeJob, self.heartbeat.alias)],
            self.timing["worker_timeout"],
            events.reaped,
        )
        pause = 0.0
        while not self._stop.wait(pause):
            pause = guarded(self._turn)
        connections.close_all()

    def _turn(self) -> float:
        now = time.monotonic()
        if now >= self._beat_at:
            self._beat_at = now + self.timing["beat_interval"]
            memory = resident(self.heartbeat.pid)
            beat = self.heartbeat.beat({"running": {}, "memory": memory, "trouble": ""})
            if beat is not None:
                self.on_drain_request(beat.drain_requested)
            if beat is not None and beat.stop_requested:
                self.on_stop_request(RESTART_REQUESTED if beat.restart_requested else REQUESTED)
        try:
            self.heartbeat.session.prepare()
            _, pause = self._reaper.turn(judge=self.heartbeat.may_judge)
        except Error as error:
            self.heartbeat.session.recover(error)
            return self._backoff.failed(error)
        self._backoff.worked()
        return min(pause, REAP_SECONDS, max(0.0, self._beat_at - time.monotonic()))

    def _sign_off(self) -> None:
        try:
            self.heartbeat.sign_off(self._reason)
        except Error as error:
            logger.warning("could not sign off; the row will be reaped: %s", error)
        connections.close_all()


def watch_statements(seconds: float) -> None:
    """End the connections of our threads whose statements are not answered."""
    STATEMENT_WATCHDOG.end_waits(seconds)
