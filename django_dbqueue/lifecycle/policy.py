"""What a queue table says about its jobs: ``class Policy``, merged along the MRO."""

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from functools import cache
from typing import Any, Literal

from ..backoff import Backoff, Exponential
from ..exceptions import shown
from ..guard import capture, message_of
from .rates import rates_of

logger = logging.getLogger("django_dbqueue")

MAX_CRASHES = 3
SUSPECT_LOSSES = 2  # losses of a whole worker with it, from which on a job is a suspect
MAX_SECONDS = 10 * 365 * 86400  # time to run, delay
MAX_LIMIT = 2**31 - 1


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
    ``results`` names columns that a run fills in: they are written with its outcome, whatever that
    is, in the same statement.
    ``rate`` says how many jobs of each queue may start in a period: ``"50/s"``, ``"1000/h"`` or
    ``{"second": 14, "day": 50000}``; ``rate_burst`` how many of them at once (1 = evenly spread,
    None = all of a period). With ``rate_key``, a format string over the columns or a function of
    the job, each key has a rate, and a lane, of its own. ``limiter`` names a class that says all
    that.
    ``concurrency_key``, a function of the job or a format string over its columns, says which jobs
    of a ``KeyedJob`` share a key: at most ``concurrency_limit`` of them are claimed at once; with
    ``key_order="fifo"`` one at a time in the order of ids, and ``when_head_fails`` says what the
    others do while one that failed waits for its retry, or is buried.
    ``max_length`` bounds each queue of the table; ``when_full`` says what becomes of a job that
    finds it full: ``"wait"`` for up to ``full_wait`` seconds. ``max_age`` gives an ``expires_at``
    to jobs that have none. ``late_after`` says how long a ready job may wait until the admin warns,
    where the setting ``LATE_AFTER`` does not fit. The setting ``QUEUES`` may say otherwise of one
    queue.
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
    results: tuple[str, ...] = ()
    max_length: int | None = None
    concurrency_key: str | Callable[[Any], str | None] | None = None
    concurrency_limit: int = 1
    key_order: Literal["free", "fifo"] = "free"
    when_head_fails: Literal["block", "skip", "fail"] = "block"
    when_full: Literal["reject", "wait", "drop_oldest"] = "reject"
    full_wait: float = 10.0
    max_age: float | None = None
    late_after: float | None = None
    rate: str | Mapping[str, int] | None = None
    rate_burst: int | None = None
    rate_key: str | Callable[[Any], str | None] | None = None
    limiter: str | None = None

    @property
    def retention(self) -> float | None:
        """Seconds that a finished job stays in its queue table; None = for good."""
        return self.prune_after if self.archive is None else self.archive_after

    def pause(self, attempt: int) -> float:
        """Seconds until the next attempt; a minute where the backoff is broken, which is logged."""
        given: object = None
        with capture() as asked:
            given = seconds = float(self.backoff.seconds(attempt))
            if seconds >= 0:
                return seconds
        if asked.error is not None:
            given = f"{type(asked.error).__name__}: {message_of(asked.error)}"
        logger.error("backoff.seconds(%d) gave %s: retrying in 60 s", attempt, given)
        return 60.0


OPTIONS = frozenset(option.name for option in fields(Policy))
# What the setting QUEUES may say of one queue.
QUEUE_OPTIONS = frozenset(
    (
        *("max_length", "when_full", "full_wait", "max_age", "late_after"),
        *("concurrency_key", "concurrency_limit", "key_order", "when_head_fails"),
        *("rate", "rate_burst", "rate_key"),
    )
)
WHEN_FULL = ("reject", "wait", "drop_oldest")


def _is_number(value: Any, low: float, high: float) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return low <= value <= high and value < math.inf


def backoff_problem(value: Any) -> str:
    """Ask it for the first pause; what it does later is caught when it comes to it."""
    given: Any = None
    with capture() as asked:
        given = value.seconds(1)
    if asked.error is not None:
        return f"its seconds(1) raised {type(asked.error).__name__}: {message_of(asked.error)}"
    pause = float(given) if isinstance(given, Decimal) else given
    if not _is_number(pause, 0, math.inf):
        return f"its seconds(1) gave {shown(given)}, not a number of at least 0"
    return ""


def _unless(is_right: bool, problem: str) -> str:
    return "" if is_right else problem


def _time_problem(value: Any) -> str:
    is_right = _is_number(value, 0, MAX_SECONDS)
    return _unless(is_right, f"it must be between 0 and {MAX_SECONDS} seconds")


def _rate_problem(value: Any) -> str:
    try:
        rates_of(value, "it")
    except ValueError as error:
        return str(error)
    return ""


# By option, what is wrong with a value, or ''.
PROBLEMS: dict[str, Callable[[Any], str]] = {
    "time_to_run": lambda value: _unless(
        _is_number(value, 1, MAX_SECONDS), f"it must be between 1 and {MAX_SECONDS} seconds"
    ),
    "max_attempts": lambda value: _unless(
        isinstance(value, int) and _is_number(value, 1, 2**31 - 1),
        f"it must be a whole number between 1 and {2**31 - 1}",
    ),
    "backoff": backoff_problem,
    "finish": lambda value: _unless(value in ("batch", "each"), "it must be 'batch' or 'each'"),
    "dedup_until": lambda value: _unless(
        value in ("claim", "done"), "it must be 'claim' or 'done'"
    ),
    "strict_order": lambda value: _unless(isinstance(value, bool), "it must be True or False"),
    "archive": lambda value: _unless(
        value is None or isinstance(value, str), "it must be 'app_label.Model' or None"
    ),
    "archive_after": _time_problem,
    "prune_after": lambda value: "" if value is None else _time_problem(value),
    "results": lambda value: _unless(
        isinstance(value, tuple) and all(isinstance(name, str) for name in value),
        "it must be a tuple of names of columns",
    ),
    "max_length": lambda value: _unless(
        value is None or (isinstance(value, int) and _is_number(value, 1, 2**31 - 1)),
        f"it must be a whole number between 1 and {2**31 - 1}, or None",
    ),
    "concurrency_key": lambda value: _unless(
        value is None or callable(value) or (isinstance(value, str) and value != ""),
        "it must be a format string, a function of the job, or None",
    ),
    "concurrency_limit": lambda value: _unless(
        isinstance(value, int) and _is_number(value, 1, MAX_LIMIT),
        f"it must be a whole number between 1 and {2**31 - 1}",
    ),
    "key_order": lambda value: _unless(value in ("free", "fifo"), "it must be 'free' or 'fifo'"),
    "when_head_fails": lambda value: _unless(
        value in ("block", "skip", "fail"), "it must be 'block', 'skip' or 'fail'"
    ),
    "when_full": lambda value: _unless(
        value in WHEN_FULL, "it must be 'reject', 'wait' or 'drop_oldest'"
    ),
    "full_wait": _time_problem,
    "max_age": lambda value: _unless(
        value is None or _is_number(value, 1, MAX_SECONDS),
        f"it must be between 1 and {MAX_SECONDS} seconds, or None",
    ),
    "late_after": lambda value: "" if value is None else _time_problem(value),
    "rate": lambda value: "" if value is None else _rate_problem(value),
    "rate_burst": lambda value: _unless(
        value is None or (isinstance(value, int) and _is_number(value, 1, 2**31 - 1)),
        "it must be a whole number of at least 1, or None",
    ),
    "rate_key": lambda value: _unless(
        value is None or isinstance(value, str) or callable(value),
        "it must be a format string as '{tenant_id}', or a function of the job",
    ),
    "limiter": lambda value: _unless(
        value is None or isinstance(value, str), "it must be the dotted path of a class, or None"
    ),
    # Judged by a check of its own: it must never count as not given.
    "exactly_once": lambda _: "",
}


def problems(model: type) -> dict[str, str]:
    """The options of a queue table's policy whose values make no sense, and why."""
    given = declared_options(model)
    found: dict[str, str] = {}
    for name in sorted(OPTIONS & given.keys()):
        # A value may refuse even to be compared.
        with capture() as look:
            found[name] = PROBLEMS[name](given[name])
        if look.error is not None:
            what = f"{type(look.error).__name__}: {message_of(look.error)}"
            found[name] = f"it cannot be looked at: {what}"
    return {name: problem for name, problem in found.items() if problem}


@cache
def policy_of(model: type) -> Policy:
    """The policy of a queue table; what the system checks object to counts as not given, so that a
    worker that was started without them goes on."""
    given, wrong = declared_options(model), problems(model)
    for name, problem in wrong.items():
        message = "%s: Policy.%s makes no sense and is left out: %s"
        logger.error(message, model.__name__, name, problem)
    known = OPTIONS - wrong.keys()
    return Policy(**{name: value for name, value in given.items() if name in known})


def declared_options(model: type) -> dict[str, Any]:
    """All that the ``class Policy`` of a model and of its bases say, the nearest last."""
    given: dict[str, Any] = {}
    for base in reversed(model.__mro__):
        for part in reversed(getattr(vars(base).get("Policy"), "__mro__", ())):
            given |= {name: v for name, v in vars(part).items() if not name.startswith("_")}
    return given
