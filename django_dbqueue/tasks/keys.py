"""The options of a task that say which of its calls may run at once."""

from collections.abc import Iterator, Mapping, Sequence
from inspect import signature
from typing import Any

from django.core.exceptions import ValidationError

from ..lifecycle.keys import FREE, check_key_columns, key_from
from ..lifecycle.policy import MAX_LIMIT, PROBLEMS
from ..lifecycle.twins import renewal
from .queued_task import option


def key_columns(task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """What a call writes; ``ValidationError`` where its key is none."""
    wanted = option(task, "concurrency_key")
    if wanted is None:
        return {"concurrency_key": None, "concurrency_limit": None, "key_order": None}
    if callable(wanted):
        key = wanted(*args, **kwargs)
        key = str(key) if key not in (None, "") else None
    else:
        key = key_from(wanted, (), _named(task, args, kwargs), tuple(args))
    columns = {
        "concurrency_key": key,
        "concurrency_limit": option(task, "concurrency_limit"),
        "key_order": _order_of(task),
    }
    check_key_columns(*columns.values())
    return columns


def twin_options(task: Any) -> dict[str, Any]:
    """What becomes of a task that waits with the same ``dedup_key``."""
    return {name: option(task, name) for name in ("on_duplicate", "debounce", "max_wait")}


def key_problems(task: Any) -> Iterator[tuple[str, str]]:
    """The options that make no sense, and what they must be."""
    try:
        dedup_key = option(task, "dedup_key") and "given"
        renewal((), dedup_key, {}, None, **twin_options(task))
    except ValidationError as error:
        for name, [problem, *_] in error.message_dict.items():
            yield name, problem.removeprefix(f"{name} ").removesuffix(".")
    key, limit = option(task, "concurrency_key"), option(task, "concurrency_limit")
    if not (key is None or callable(key) or (isinstance(key, str) and key)):
        yield "concurrency_key", "must be a format string over the arguments, or a function of them"
    if limit is not None and PROBLEMS["concurrency_limit"](limit):
        yield "concurrency_limit", f"must be a whole number between 1 and {MAX_LIMIT}"
    for name in ("key_order", "when_head_fails"):
        value = option(task, name)
        if value is not None and (problem := PROBLEMS[name](value)):
            yield name, problem.removeprefix("it ")


def _order_of(task: Any) -> str | None:
    order, then = option(task, "key_order"), option(task, "when_head_fails")
    if order is None and then is None:
        return None
    return FREE if order == "free" else (then or "block")


def _named(task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by the names that the function has for them."""
    first = [None] if task.takes_context else []
    try:
        bound = signature(task.func).bind(*first, *args, **kwargs)
    except TypeError:
        return dict(kwargs)  # the call fails when it runs
    bound.apply_defaults()
    return {**bound.arguments, **kwargs}
