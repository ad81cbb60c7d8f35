"""Concurrency keys: which one a job has, and which rule it waits by."""

from collections.abc import Mapping
from string import Formatter
from typing import Any, NamedTuple

from django.core.exceptions import ValidationError
from django.db.models import Case, F, IntegerField, TextField, Value, When
from django.db.models.functions import Cast, NullIf

from ..exceptions import shown
from ..fields import check_name
from ..guard import capture
from ..states import Status, state_for
from .limiter import base_of
from .policy import MAX_LIMIT, Policy
from .queue_options import policy_of_queue, says_anything
from .table import Table

# A job that waits for its key alone: no time makes it ready.
PARKED = f"{state_for('wake')} AND retry_at IS NULL"
HAS_KEY = "concurrency_key IS NOT NULL"
FREE = "free"
# In the order of ids, one at a time; what the others do while one that failed waits, or is buried.
BLOCK, SKIP, FAIL = "block", "skip", "fail"
ORDERS = (FREE, BLOCK, SKIP, FAIL)


class Rule(NamedTuple):
    """How many jobs of a key are claimed at once, and in which order."""

    limit: int
    order: str

    @property
    def is_fifo(self) -> bool:
        return self.order != FREE


def rule_of(policy: Policy, limit: Any, order: Any) -> Rule:
    """A job's own rule, where its row has one, or that of its queue."""
    if order not in ORDERS:
        order = policy.when_head_fails if policy.key_order == "fifo" else FREE
    own = limit if isinstance(limit, int) and limit > 0 else policy.concurrency_limit
    return Rule(own if order == FREE else 1, order)


def rule_in(table: Table, queue: Any, limit: Any, order: Any) -> Rule:
    return rule_of(policy_of_queue(table.model, base_of(table.model, str(queue))), limit, order)


def give_key(job: Any) -> None:
    """Check the key of a new job, or work it out where the policy says how."""
    if job.concurrency_key is None:
        wanted = _wanted(job)
        if wanted is None:
            return
        job.concurrency_key = key_from(wanted, (job,), _Columns(job))
    if job.concurrency_key is not None:
        check_name(job.concurrency_key, "concurrency_key")


def follow_columns(job: Any, columns: Mapping[str, Any], *, is_anew: bool = False) -> bool:
    """Write columns into a job that has been read; whether its key is another one by that. A key
    that is not of its policy's making stays, unless ``is_anew``."""
    wanted, old = _wanted(job), job.concurrency_key
    may_follow = is_anew or (wanted is not None and _makes(wanted, job, old))
    for name, value in columns.items():
        setattr(job, name, value)
    if not may_follow:
        return False
    job.concurrency_key = None if wanted is None else key_from(wanted, (job,), _Columns(job))
    if job.concurrency_key is not None:
        check_name(job.concurrency_key, "concurrency_key")
    return bool(job.concurrency_key != old)


def _makes(wanted: Any, job: Any, key: str | None) -> bool:
    """Whether a policy makes this key of a job; it makes none where it fails."""
    with capture():
        return key_from(wanted, (job,), _Columns(job)) == key
    return False


def _wanted(job: Any) -> Any:
    """How the policy of its queue makes a key; None where it makes none."""
    return policy_of_queue(type(job), base_of(type(job), job.queue)).concurrency_key


def gives_key(model: type[Any]) -> bool:
    """Whether a policy of the table works keys out of whole jobs."""
    return bool(model.takes_keys) and says_anything(model, "concurrency_key")


def key_from(
    wanted: Any, args: tuple[Any, ...], names: Mapping[str, Any], given: tuple[Any, ...] = ()
) -> str | None:
    """The key that a callable makes of ``args``, or a format string of names and what is
    ``given``; ``ValidationError`` where the string cannot. None and '' mean: without a key."""
    if callable(wanted):
        key = wanted(*args)
    else:
        try:
            key = Formatter().vformat(wanted, given, names)
        except (LookupError, AttributeError, ValueError, TypeError) as error:
            what = f"{type(error).__name__}: {error}"
            problem = f"concurrency_key {shown(wanted)} cannot be worked out: {what}"
            raise ValidationError({"concurrency_key": problem}) from error
    return str(key) if key not in (None, "") else None


def no_empty_key(value: Any) -> Any:
    """What is written as a key: where an expression makes '' of a row, it has none."""
    if not hasattr(value, "resolve_expression"):
        return value
    return NullIf(Cast(value, TextField()), Value(""), output_field=TextField())


def status_with_another_key() -> Any:
    """An expression for the ``status`` of a row whose key is written: one that was parked is ready,
    since nothing would wake it without a key. With one the next claim parks it again."""
    parked = When(status=Status.DELAYED, retry_at__isnull=True, then=Value(Status.READY.value))
    return Case(parked, default=F("status"), output_field=IntegerField())


def check_key_columns(key: Any, limit: Any, order: Any) -> None:
    """``ValidationError`` names the column that is out of its limits."""
    if key is not None:
        check_name(key, "concurrency_key")
    check_limit(limit)
    check_order(order)


def check_limit(limit: Any) -> None:
    if limit is not None and not (
        isinstance(limit, int) and not isinstance(limit, bool) and 1 <= limit <= MAX_LIMIT
    ):
        problem = f"must be a whole number between 1 and {MAX_LIMIT}, not {shown(limit)}"
        raise ValidationError({"concurrency_limit": f"concurrency_limit {problem}"})


def check_order(order: Any) -> None:
    if order is not None and order not in ORDERS:
        problem = f"must be one of {', '.join(ORDERS)}, not {shown(order)}"
        raise ValidationError({"key_order": f"key_order {problem}"})


class _Columns(Mapping[str, Any]):
    """What a format string may name: the attributes of a job."""

    def __init__(self, job: Any) -> None:
        self._job = job

    def __getitem__(self, name: str) -> Any:
        return getattr(self._job, name)

    def __iter__(self) -> Any:
        return iter(vars(self._job))

    def __len__(self) -> int:
        return len(vars(self._job))
