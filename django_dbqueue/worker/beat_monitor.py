"""Who has not beaten for too long."""

import time

from ..models import Worker


class BeatMonitor:
    """Since when each worker's beat has not changed, by this process's own clock.

    The clock of the database tells nothing about it: the nodes of a cluster, and the servers before
    and after a failover, have clocks of their own.
    """

    def __init__(self, worker_timeout: float) -> None:
        self.worker_timeout = worker_timeout
        self._seen: dict[str, dict[str, tuple[object, float]]] = {}

    def silent(self, alias: str) -> list[str]:
        """Look; those whose beat has not changed for ``worker_timeout``."""
        asked_at = time.monotonic()
        beats = Worker.objects.using(alias).beats()
        now, before = time.monotonic(), self._seen.get(alias, {})
        self._seen[alias] = seen = {
            uuid: before[uuid] if uuid in before and before[uuid][0] == beat else (beat, now)
            for uuid, beat in beats.items()
        }
        return [u for u, (_, since) in seen.items() if asked_at - since >= self.worker_timeout]
