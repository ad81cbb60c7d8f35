"""What a queue table says about its jobs: ``class Policy``, merged along the MRO."""

import logging
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Literal

from ..backoff import Backoff, Exponential
from ..guard import caught

logger = logging.getLogger("django_dbqueue")

MAX_CRASHES = 3
MAX_SECONDS = 10 * 365 * 86400  # time to run, delay


@dataclass(frozen=True)
class Policy:
    """The options of a queue table, in seconds where they are times; all have defaults.

    ``finish="batch"`` commits outcomes together: after a kill, up to one such batch that had
    already run may run again. ``"each"`` commits every outcome at once.
    ``archive`` names the model that finished jobs move to after ``archive_after``; ``prune_after``
    deletes them (from the archive where there is one); 0 deletes a job as it completes.
    ``strict_order`` claims in exact order of priority and id even among many claimers on
    MariaDB and MySQL, at some cost.
    ``exactly_once=True`` puts a job's run and its completion into one transaction; the alias of
    another database says that the job's writes go there, and a receipt with them.
    """

    time_to_run: int = 300
    max_attempts: int = 5
    backoff: Backoff = field(default_factory=Exponential)
    finish: Literal["batch", "each"] = "batch"
    dedup_until: Literal["claim", "done"] = "claim"
    strict_order: bool = False
    archive: str | None = None
    archive_after: float = 86400
    prune_after: float | None = None
    exactly_once: bool | str = False

    @property
    def retention(self) -> float | None:
        """Seconds that a finished job stays in its queue table; None = for good."""
        return self.prune_after if self.archive is None else self.archive_after

    def pause(self, attempt: int) -> float:
        """Seconds until the next attempt; a minute where the backoff is broken, which is logged."""
        given: list[float] = []
        error = caught(lambda: given.append(float(self.backoff.seconds(attempt))))
        if error is None and given[0] >= 0:
            return given[0]
        logger.error("backoff.seconds(%d) gave %s: retrying in 60 s", attempt, error or given[0])
        return 60.0


OPTIONS = frozenset(option.name for option in fields(Policy))


@cache
def policy_of(model: type) -> Policy:
    """The policy of a queue table; unknown options are left to the system check."""
    given = declared_options(model)
    return Policy(**{name: value for name, value in given.items() if name in OPTIONS})


def declared_options(model: type) -> dict[str, Any]:
    """All that the ``class Policy`` of a model and of its bases say, the nearest last."""
    given: dict[str, Any] = {}
    for base in reversed(model.__mro__):
        for part in reversed(getattr(vars(base).get("Policy"), "__mro__", ())):
            given |= {name: v for name, v in vars(part).items() if not name.startswith("_")}
    return given
