"""Tasks that the tests enqueue."""

import asyncio
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any

from django_dbqueue.exceptions import Bury, Retry
from django_dbqueue.tasks import task
from django_dbqueue.tasks.queued_task import QueuedTask
from tests.queueapp.faults import record
from tests.queueapp.once import Effect


@task
def noop(*args: Any, **kwargs: Any) -> None:
    return None


@task
def poll(times: int) -> None:
    """Enqueues itself again, a bounded number of times."""
    if times:
        poll.using(run_after=timedelta(minutes=10)).enqueue(times - 1)


@task()
def add(a: int, b: int = 0) -> int:
    return a + b


@task
def echo(value: Any) -> Any:
    return value


def with_a_tenant(func: Callable[..., Any]) -> Callable[..., Any]:
    """Gives an argument that nobody enqueues."""

    @wraps(func)
    def given(*args: Any) -> Any:
        return func("tenant", *args)

    return given


@task
@with_a_tenant
def decorated(tenant: str, number: int) -> list[Any]:
    return [tenant, number]


class PrefixedTask(QueuedTask):
    def enqueue(self, *args: Any, **kwargs: Any) -> Any:
        return super().enqueue("tenant", *args, **kwargs)


prefixed = PrefixedTask(
    func=decorated.func, run_after=None, priority=0, queue_name="default", backend="default"
)


@task
def unreadable(number: int) -> int:
    return number


unreadable.func.__signature__ = "none"


@task
async def slow_double(number: int) -> int:
    await asyncio.sleep(0.01)
    return 2 * number


@task
async def meet(log: str, count: int) -> int:
    """Wait until so many of them run at once."""
    record(log, "here")
    while Path(log).read_text().count("here\n") < count:
        await asyncio.sleep(0.05)
    record(log, "all are here")
    return count


@task
async def async_fail() -> None:
    raise ValueError("no")


@task(takes_context=True, max_attempts=2, backoff=5)
async def async_second_time_lucky(context: Any) -> int:
    await context.aprogress(1, 2)
    await context.atouch()
    if context.attempt == 1:
        context.retry()
    return int(context.attempt)


@task(exactly_once=True)
async def async_pay(number: int) -> int:
    await Effect.objects.acreate(job=number)
    return number


@task
def fail(words: str = "it does not work") -> None:
    raise ValueError(words)


@task(max_attempts=3, backoff=[1, 5])
def fail_thrice() -> None:
    raise OSError("away")


@task(max_attempts=5, retry_on=OSError)
def fail_otherwise() -> None:
    raise ValueError("wrong for good")


@task
def leave() -> None:
    sys.exit(3)


@task
def interrupt() -> None:
    raise KeyboardInterrupt


class Rude(BaseException):
    """Which no ``except Exception`` stops."""


@task
def be_rude() -> None:
    raise Rude


@task
def cancel() -> None:
    raise asyncio.CancelledError


@task
async def async_be_rude() -> None:
    raise Rude


@task
async def async_cancel() -> None:
    raise asyncio.CancelledError


@task
def unstorable() -> Any:
    return object()


@task
def huge(count: int) -> str:
    return "x" * count


@task(takes_context=True, max_attempts=3)
def second_time_lucky(context: Any) -> int:
    if context.attempt == 1:
        context.retry(30, "not yet")
    return int(context.attempt)


@task(takes_context=True, max_attempts=3, backoff=[1000, 5000])
def never_yet(context: Any) -> None:
    context.retry()


@task(takes_context=True, max_attempts=3, backoff=[1000, 5000])
async def async_never_yet(context: Any) -> None:
    context.retry()


LATER = Retry(reason="not yet")


@task(max_attempts=3, backoff=[1000, 5000])
def never_yet_by_one_error() -> None:
    raise LATER


@task(max_attempts=2, backoff=0)
def end_for_a_reason(kind: str) -> None:
    _end_for_a_reason(kind)


@task(max_attempts=2, backoff=0)
async def async_end_for_a_reason(kind: str) -> None:
    _end_for_a_reason(kind)


def _end_for_a_reason(kind: str) -> None:
    try:
        raise LookupError("the inner one")
    except LookupError as error:
        if kind == "while":
            raise Retry  # noqa: B904  # what was raised before is known all the same
        raise {"bury": Bury(), "retry": Retry(), "later": Retry(0)}[kind] from error


class Fickle:
    """It has no pause after the second attempt."""

    def seconds(self, attempt: int) -> float:
        return {1: 1000.0}[attempt]


@task(max_attempts=3, backoff=Fickle())
def fail_oddly() -> None:
    raise ValueError("no")


@task(takes_context=True, max_attempts=3)
def give_up(context: Any) -> None:
    context.bury("no use")


class Grouped:
    @staticmethod
    @task
    def in_a_class() -> None:
        return None


nameless = task(lambda: None)


def _renamed() -> None:
    return None


renamed = task(_renamed)


@task(takes_context=True)
def who_am_i(context: Any) -> dict[str, Any]:
    result = context.task_result
    return {"id": result.id, "status": str(result.status), "workers": len(result.worker_ids)}


@task(takes_context=True)
def look_at(context: Any, others: list[str]) -> list[Any]:
    """What is known of it, and of others, while it runs."""
    ids = [context.task_result.id, *others]
    found = [noop.get_backend().get_result(one) for one in ids]
    return [[str(one.status), one.attempts, one.started_at is None] for one in found]


@task(takes_context=True, max_attempts=2, backoff=0)
def fail_with_its_start(context: Any) -> None:
    raise ValueError(context.task_result.started_at.isoformat())


@task(takes_context=True)
def walk(context: Any, steps: int) -> None:
    for step in range(1, steps + 1):
        context.progress(step, steps, f"step {step}")
    context.touch()


@task(exactly_once=True)
def pay(number: int) -> int:
    Effect.objects.create(job=number)
    return number


@task(exactly_once=True)
def pay_and_fail(number: int) -> None:
    Effect.objects.create(job=number)
    raise ValueError("no")


TROUBLES: list[Exception] = []  # of the next runs


@task(exactly_once=True)
def pay_in_the_end(number: int) -> int:
    Effect.objects.create(job=number)
    if TROUBLES:
        raise TROUBLES.pop()
    return number


@task(exactly_once=True, max_attempts=3, backoff=[5000])
def pay_tomorrow(number: int) -> int:
    return int(pay_in_the_end.call(number))


@task(exactly_once=True, max_attempts=3, retry_on=(OSError,))
def pay_now_or_never(number: int) -> int:
    return int(pay_in_the_end.call(number))


@task(exactly_once=True)
async def async_pay_in_the_end(number: int) -> int:
    await Effect.objects.acreate(job=number)
    if TROUBLES:
        raise TROUBLES.pop()
    return number


@task(dedup_key=lambda number: f"number {number}")
def once_for_each(number: int) -> None:
    return None


@task(time_to_run=7)
def short() -> None:
    return None


@task(max_attempts=3, time_to_run=1, retry_on=(LookupError,))
def too_long(log: str = "") -> None:
    sleep.func(log, 60)


@task(max_attempts=3, time_to_run=1, retry_on=(TimeoutError,), backoff=[600, 900])
def too_long_at_first(log: str = "") -> None:
    sleep.func(log, 60)


@task(max_attempts=3, time_to_run=1, retry_on=LookupError)
async def awaits_too_long() -> None:
    await asyncio.sleep(60)


@task(max_attempts=3, time_to_run=1, retry_on=TimeoutError, backoff=600)
async def awaits_too_long_at_first() -> None:
    await asyncio.sleep(60)


@task
def sleep(log: str, seconds: float) -> None:
    record(log, "started")
    time.sleep(seconds)
    record(log, "ended")


@task(concurrency_key="tenant {tenant}", concurrency_limit=2)
def export(tenant: str, pages: int = 1) -> None:
    return None


@task(concurrency_key=lambda tenant, **_: tenant, key_order="fifo", when_head_fails="skip")
def post(tenant: str) -> None:
    return None


@task(concurrency_key=lambda region: {"north": "n", "south": "s"}[region])
def restock(region: str) -> None:
    return None


@task(dedup_key="index", on_duplicate="replace", debounce=60, max_wait=600)
def index(pages: int) -> None:
    return None


@task(concurrency_key="one")
async def call_service(number: int) -> None:
    return None
