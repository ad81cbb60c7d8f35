"""Schedules that are declared in code: in a module ``schedules`` of any installed app."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from .timing import written


@dataclass(frozen=True)
class Declared:
    """One call of ``schedule``."""

    name: str
    timing: str | timedelta
    target: Any
    using: str | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)


# In the order of their calls; a name that comes twice is an error of the system checks.
DECLARED: list[Declared] = []


def schedule(
    name: str,
    timing: str | timedelta,
    target: Any,
    arguments: Mapping[str, Any] | None = None,
    *,
    queue: str | None = None,
    priority: int | None = None,
    time_zone: str = "",
    starts_at: datetime | None = None,
    missed: str = "latest",
    catch_up_within: int = 86400,
    overlap: str = "allow",
    kind: str = "",
    using: str | None = None,
) -> None:
    """Declare a schedule; workers write it to the database when they start.

    ``timing`` is a cron expression of five fields, "every 10 s" (or min, h, d), or a timedelta.
    ``target`` is a queue table (its class or label), with its job's columns as ``arguments``; or a
    task, or its dotted path, with ``{"args": [..], "kwargs": {..}}``. ``time_zone`` is an IANA
    name, by default the project's; ``missed`` is skip, latest or all, as far back as
    ``catch_up_within`` seconds; ``overlap`` is allow, skip or replace. What is wrong with any of
    them is an error of the system checks.
    """
    columns = {
        "arguments": dict(arguments or {}),
        "queue": queue,
        "priority": priority,
        "time_zone": time_zone,
        "starts_at": starts_at,
        "missed": missed,
        "catch_up_within": catch_up_within,
        "overlap": overlap,
        "kind": kind,
    }
    DECLARED.append(Declared(name, timing, target, using, columns))


def timing_text(timing: str | timedelta) -> str:
    return written(timing) if isinstance(timing, timedelta) else timing
