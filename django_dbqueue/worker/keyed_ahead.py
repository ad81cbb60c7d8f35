"""How many jobs with concurrency keys a child claims ahead: each of them holds a slot of its key,
which another worker could use at once."""

from collections.abc import Sequence
from typing import Any

KEYED_AHEAD_SECONDS = 0.02  # of work


class KeyedAhead:
    """As many as there are free runners, and ahead of them only what is over in a moment."""

    def __init__(self) -> None:
        self._batch = 0
        self._was_full = False
        # With so many items ahead the next claim may be made; -1: once a runner is free.
        self.refill_at = -1
        # Whether the last claim met jobs with keys.
        self.meets_keys = False

    def most(self, free: int, seconds: float, batch_max: int) -> int:
        """Jobs with keys for the next claim, so many seconds after the last one."""
        if self._was_full and seconds < KEYED_AHEAD_SECONDS:
            self._batch = min(batch_max, max(1, self._batch * 2))
        elif seconds > KEYED_AHEAD_SECONDS:
            self._batch //= 2
        self.refill_at = self._batch // 2 if self._batch else -1
        return max(1, free, self._batch)

    def claimed(self, jobs: Sequence[Any], most: int) -> bool:
        """Whether a claim took all that it might: then there may be more."""
        keyed = sum(job.concurrency_key is not None for job in jobs)
        self.meets_keys = keyed > 0
        self._was_full = keyed >= most
        return self._was_full
