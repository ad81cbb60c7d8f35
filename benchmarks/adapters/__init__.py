"""One file per contestant: how it is set up, filled, put to work and asked for its result."""

from dataclasses import dataclass
from typing import Protocol

URL_VARIABLE = "BENCH_DATABASE_URL"


@dataclass(frozen=True)
class Result:
    """What the queue itself says: finished jobs, first start and last completion in seconds."""

    done: int
    first_start: float
    last_end: float


class Adapter(Protocol):
    """What each file offers as ``Adapter``; made and used in the contestant's own environment.

    The constructor takes the mode, ``default`` or ``best``; ``URL_VARIABLE`` names the database.
    """

    def prepare(self) -> None:
        """Make the tables; called once per database."""

    def fill(self, jobs: int) -> None:
        """Empty the queue and enqueue the no-op job with the numbers from 0 to ``jobs`` - 1."""

    def work(self) -> None:
        """Be the worker, until SIGTERM."""

    def result(self) -> Result:
        """What is committed."""

    def versions(self) -> dict[str, str]:
        """Of the packages that matter, and of the server."""
