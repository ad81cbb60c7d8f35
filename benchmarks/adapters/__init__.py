"""One file per contestant: how it is set up, filled, put to work and asked for its result."""

from dataclasses import dataclass
from typing import Protocol

URL_VARIABLE = "BENCH_DATABASE_URL"
WORKER_VARIABLE = "BENCH_WORKER"  # the number of a worker, from 0, where there are several
TRACE_VARIABLE = "BENCH_TRACE"  # the file for the statements of a worker on SQLite
BULK = 1000  # jobs that are enqueued together, where the queue can
NAP_SECONDS = 0.005  # that a coroutine waits
WARM = 20  # tasks that are enqueued before the clock starts: all is imported and connected
WAYS = ("enqueue", "enqueue_many", "aenqueue")


@dataclass(frozen=True)
class Result:
    """What the queue itself says once its worker has stopped: completions that are committed, and
    the seconds from the first start to the last of them; None where it keeps no such times."""

    done: int
    seconds: float | None


class Adapter(Protocol):
    """What each file offers as ``Adapter``; made and used in the contestant's own environment.

    The constructor takes the mode, such as ``default`` or ``best``; ``URL_VARIABLE`` names the
    database or broker.
    """

    def prepare(self) -> None:
        """Make the tables; called once per database and mode."""

    def fill(self, jobs: int) -> None:
        """Empty the queue and enqueue the no-op job with the numbers from 0 to ``jobs`` - 1."""

    def work(self) -> None:
        """Be the worker, until SIGTERM."""

    def left(self) -> int:
        """Jobs whose completion is not committed yet."""

    def result(self, jobs: int) -> Result:
        """What is committed of so many jobs."""

    def versions(self) -> dict[str, str]:
        """Of the packages that matter, and of the server."""


class PacedAdapter(Adapter, Protocol):
    """What a contestant whose pick-up is measured offers, too."""

    def pace(self, rate: float, jobs: int) -> None:
        """Enqueue so many jobs, one by one and ``rate`` a second, and note each commit."""


class TaskAdapter(Adapter, Protocol):
    """What a contestant in the comparison of Django Tasks offers, too."""

    def enqueue_seconds(self, way: str, jobs: int) -> float:
        """Empty the queue and enqueue so many no-op tasks in one of ``WAYS``; the seconds that it
        took. Fails where not all were written."""


class Timeless:
    """The result of a queue that does not keep its finished jobs with their times."""

    def left(self) -> int:
        raise NotImplementedError

    def result(self, jobs: int) -> Result:
        return Result(jobs - self.left(), None)
