"""A task with a policy of its own: how often it is tried, after which pauses, on which errors."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from inspect import iscoroutinefunction
from typing import Any, Self, overload

from django.utils.module_loading import import_string

from ..backoff import Backoff, Exponential, Fixed, Listed
from ..exceptions import TimeToRunExceeded
from ..lifecycle.policy import Policy
from .compat import Task, TaskContext
from .context import Context

MAX_ATTEMPTS = 2**31 - 1
PATH_MAX, ALIAS_MAX = 255, 100  # characters
PAUSES_MAX = 10  # that a row says ahead; the last one repeats
CHANGED = (
    *("priority", "backend", "queue_name", "run_after", "max_attempts", "time_to_run"),
    *("dedup_key", "on_duplicate", "debounce", "max_wait"),
    *("concurrency_key", "concurrency_limit", "key_order", "when_head_fails"),
)
DedupKey = str | Callable[..., str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedTask(Task):  # type: ignore[misc]
    """A task of ``django.tasks`` with these options, which ``@task()`` and ``using()`` take.

    ``backoff``: seconds, a list of them (the last one repeats), or anything with
    ``seconds(attempt)``. ``time_to_run``: seconds. ``dedup_key``: text, or a function of the
    arguments that returns it; ``on_duplicate``, ``debounce`` and ``max_wait`` are those of
    ``Job.objects.enqueue``. An error that is none of ``retry_on`` is final.
    ``concurrency_key``: a format string over the arguments, or a function of them; at most
    ``concurrency_limit`` calls with the same key run at once, with ``key_order="fifo"`` one at a
    time in their order, and ``when_head_fails``, "block", "skip" or "fail", says what the others do
    while one that failed waits for its retry, or is buried. What is None is as the table's policy
    says.
    """

    max_attempts: int = 1
    backoff: Any = None
    retry_on: tuple[type[BaseException], ...] = (BaseException,)
    time_to_run: int | None = None
    exactly_once: bool = False
    dedup_key: DedupKey = None
    on_duplicate: str = "keep"
    debounce: float | None = None
    max_wait: float | None = None
    concurrency_key: DedupKey = None
    concurrency_limit: int | None = None
    key_order: str | None = None
    when_head_fails: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "backoff", _backoff_of(self.backoff))
        if isinstance(self.retry_on, type):
            object.__setattr__(self, "retry_on", (self.retry_on,))
        elif isinstance(self.retry_on, list):
            object.__setattr__(self, "retry_on", tuple(self.retry_on))
        # super() would look for the class that had no slots yet.
        Task.__post_init__(self)

    def __reduce__(self) -> Any:
        """By its path, and what ``using()`` may have changed: the rest may not be pickled."""
        names = [name for name in CHANGED if not callable(getattr(self, name))]
        return _unpickled, (self.module_path, {name: getattr(self, name) for name in names})

    def using(
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: datetime | timedelta | None = None,
        backend: str | None = None,
        max_attempts: int | None = None,
        time_to_run: int | None = None,
        dedup_key: DedupKey = None,
        on_duplicate: str | None = None,
        debounce: float | None = None,
        max_wait: float | None = None,
        concurrency_key: DedupKey = None,
        concurrency_limit: int | None = None,
        key_order: str | None = None,
        when_head_fails: str | None = None,
    ) -> Self:
        """The same task with other options."""
        given: dict[str, Any] = {
            "priority": priority,
            "queue_name": queue_name,
            "run_after": run_after,
            "backend": backend,
            "max_attempts": max_attempts,
            "time_to_run": time_to_run,
            "dedup_key": dedup_key,
            "on_duplicate": on_duplicate,
            "debounce": debounce,
            "max_wait": max_wait,
            "concurrency_key": concurrency_key,
            "concurrency_limit": concurrency_limit,
            "key_order": key_order,
            "when_head_fails": when_head_fails,
        }
        return replace(self, **{name: v for name, v in given.items() if v is not None})

    def enqueue_many(self, calls: Iterable[Sequence[Any] | Mapping[str, Any]]) -> list[Any]:
        """Enqueue it once for each item, a list of arguments or a dict of keyword arguments, by
        multi-row INSERTs; their results. On an error none is enqueued."""
        results: list[Any] = self.get_backend().enqueue_many(self._each(calls))
        return results

    async def aenqueue_many(self, calls: Iterable[Sequence[Any] | Mapping[str, Any]]) -> list[Any]:
        """The same from async code."""
        results: list[Any] = await self.get_backend().aenqueue_many(self._each(calls))
        return results

    def _each(self, calls: Iterable[Sequence[Any] | Mapping[str, Any]]) -> list[Any]:
        return [
            (self, (), call) if isinstance(call, Mapping) else (self, _as_list(call, number), {})
            for number, call in enumerate(calls, start=1)
        ]

    def call(self, *args: Any, **kwargs: Any) -> Any:
        return Task.call(self, *_with_our_context(self, args), **kwargs)

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        return await Task.acall(self, *_with_our_context(self, args), **kwargs)


def _as_list(call: Any, number: int) -> Sequence[Any]:
    """A text would be a list of its letters."""
    if isinstance(call, Sequence) and not isinstance(call, str | bytes):
        return call
    kind = type(call).__name__
    raise TypeError(
        f"call {number} must be a list of arguments or a dict of keyword arguments, not {kind}"
    )


def _with_our_context(task: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Other backends know a smaller context."""
    if not (task.takes_context and args and isinstance(args[0], TaskContext)):
        return args
    if isinstance(args[0], Context):
        return args
    return Context(task_result=args[0].task_result), *args[1:]


def _backoff_of(given: Any) -> Any:
    if isinstance(given, int | float) and not isinstance(given, bool):
        return Fixed(given)
    if isinstance(given, list | tuple):
        return Listed(tuple(given))
    return given


@overload
def task(function: Callable[..., Any], /) -> QueuedTask: ...


@overload
def task(
    *,
    priority: int = ...,
    queue_name: str = ...,
    backend: str = ...,
    takes_context: bool = ...,
    **options: Any,
) -> Callable[[Callable[..., Any]], QueuedTask]: ...


def task(
    function: Callable[..., Any] | None = None,
    /,
    *,
    priority: int = 0,
    queue_name: str = "default",
    backend: str = "default",
    takes_context: bool = False,
    **options: Any,
) -> Any:
    """``django.tasks.task`` with the options of ``QueuedTask``, on every version of Django, and
    whatever backend the settings name."""
    known = [field.name for field in fields(QueuedTask) if field.name not in {"func", "run_after"}]
    if odd := sorted(options.keys() - set(known)):
        raise TypeError(f"@task() takes no {', '.join(odd)}; it takes {', '.join(known)}")

    def decorated(func: Callable[..., Any]) -> QueuedTask:
        return QueuedTask(
            func=func,
            run_after=None,  # Django 6.0 has no default
            priority=priority,
            queue_name=queue_name,
            backend=backend,
            takes_context=takes_context,
            **options,
        )

    return decorated if function is None else decorated(function)


def _unpickled(path: str, options: dict[str, Any]) -> Any:
    try:
        return restored(import_string(path), **options)
    except (ImportError, TypeError) as error:
        raise ValueError(f"Expected {path!r} to point to a Task instance.") from error


# What a task that was made for another backend lacks.
DEFAULTS: dict[str, Any] = {
    "max_attempts": 1,
    "backoff": None,
    "retry_on": (BaseException,),
    "time_to_run": None,
    "exactly_once": False,
    "dedup_key": None,
    "on_duplicate": "keep",
    "debounce": None,
    "max_wait": None,
    "concurrency_key": None,
    "concurrency_limit": None,
    "key_order": None,
    "when_head_fails": None,
}


def option(task: Any, name: str) -> Any:
    """An option of a task of any class."""
    return getattr(task, name, DEFAULTS[name])


def is_for_event_loop(task: Any) -> bool:
    """Whether it may run next to others on one. A transaction is a thread's, and what is in it."""
    return iscoroutinefunction(task.func) and not option(task, "exactly_once")


def backoff_of(task: Any) -> Backoff:
    found: Backoff = option(task, "backoff") or Exponential()
    return found


def overdue_pauses(task: Any) -> list[float] | None:
    """The column of that name: what ``retry_on`` and ``backoff`` say of the end of its time to run.
    None where that is what the queue table says of any failure."""
    tries = option(task, "max_attempts")
    if tries == 1:
        return None
    if not issubclass(TimeToRunExceeded, option(task, "retry_on")):
        return []
    if option(task, "backoff") is None:
        return None
    policy = Policy(backoff=backoff_of(task))
    return [round(policy.pause(attempt), 3) for attempt in range(1, min(tries, PAUSES_MAX + 1))]


def restored(task: Any, **changes: Any) -> Any:
    """A copy that nobody validates: settings may have changed since it was enqueued."""
    copy = object.__new__(type(task))
    for field in fields(task):
        object.__setattr__(copy, field.name, changes.get(field.name, getattr(task, field.name)))
    return copy
