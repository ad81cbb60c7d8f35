"""``manage.py dbqueue schedule``: list, add, pause, resume, run now and delete."""

import json
from argparse import ArgumentParser
from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import router
from django.utils.translation import override

from ..exceptions import shown
from ..guard import capture
from ..management.commands._text import aligned
from ..management.commands._types import alias
from ..management.verbs import Verb
from .firing import run_now, why_not
from .models import Overlap, Schedule, as_utc
from .planning import Missed
from .problems import problems_of
from .synchronise import resolved


class UnknownSchedule(ValueError):
    """No schedule has this name."""


def add_arguments(parser: ArgumentParser) -> None:
    acts = parser.add_subparsers(dest="act", required=True)
    listed = acts.add_parser("list", help="all schedules, and when they tick next")
    listed.add_argument("--json", action="store_true", help="for programs")
    add = acts.add_parser("add", help="a schedule by name")
    add.add_argument("name", metavar="NAME")
    add.add_argument("timing", metavar="TIMING", help="'every 10 s', or '0 3 * * 1-5'")
    add.add_argument("target", metavar="TARGET", help="app.Model, or a task's dotted path")
    add.add_argument(
        "--arguments", default="{}", help="JSON: the job's columns, or args and kwargs"
    )
    add.add_argument("--kind", default="", help="of target; told by TARGET, if it can be")
    add.add_argument("--queue")
    add.add_argument("--priority", type=int)
    add.add_argument("--time-zone", default="", help="such as Europe/Berlin")
    add.add_argument("--starts-at", type=instant, help="2031-05-05T05:05:05+00:00")
    add.add_argument("--missed", choices=Missed.values, default=Missed.LATEST)
    add.add_argument("--catch-up-within", type=int, default=86400, help="seconds")
    add.add_argument("--overlap", choices=Overlap.values, default=Overlap.ALLOW)
    for act, words in ACTS.items():
        one = acts.add_parser(act, help=words)
        one.add_argument("name", metavar="NAME")
    for one in acts.choices.values():
        one.add_argument("--database", type=alias, help="on which the schedule is")


ACTS = {
    "pause": "no tick until it is resumed",
    "resume": "from now on",
    "run": "enqueue one job now",
    "delete": "with what became of its ticks",
}


def instant(text: str) -> datetime:
    return as_utc(datetime.fromisoformat(text))


def run(options: dict[str, Any]) -> str:
    using = options["database"] or router.db_for_write(Schedule)
    if options["act"] == "list":
        return list_all(using, options["json"])
    try:
        if options["act"] == "add":
            return add(options, using)
        return act(options["act"], named(options["name"], using))
    except ValidationError as error:
        raise ValueError(problems_of(error)) from error


def act(verb: str, row: Schedule) -> str:
    if verb == "delete":
        return delete(row)
    with capture() as outcome:  # a target is the project's code
        said = VERBS[verb](row)
    if outcome.error is not None:
        raise ValueError(why_not(row, outcome.error)) from outcome.error
    return said


def list_all(using: str, is_json: bool) -> str:
    rows = list(Schedule.objects.using(using).order_by("name"))
    if is_json:
        return json.dumps([of_row(row) for row in rows], indent=2)
    head = ["schedule", "timing", "time zone", "target", "next tick (UTC)", "state"]
    lines = [
        [row.name, row.timing, row.zone, row.target, next_tick(row) or "never", state_of(row)]
        for row in rows
    ]
    return aligned([head, *lines]) if lines else "no schedules"


def of_row(row: Schedule) -> dict[str, Any]:
    return {
        "name": row.name,
        "timing": row.timing,
        "time_zone": row.zone,
        "kind": row.kind,
        "target": row.target,
        "next_tick": next_tick(row),
        "is_paused": row.is_paused,
        "is_declared": row.is_declared,
        "error": row.error,
    }


def next_tick(row: Schedule) -> str | None:
    return as_utc(row.next_tick).isoformat() if row.next_tick else None


def state_of(row: Schedule) -> str:
    return "paused" if row.is_paused else row.error


def named(name: str, using: str) -> Schedule:
    row = Schedule.objects.using(using).filter(name=name).first()
    if row is None:
        raise UnknownSchedule(f"{shown(name)} is no schedule; manage.py dbqueue schedule list")
    return row


def add(options: dict[str, Any], using: str) -> str:
    try:
        arguments = json.loads(options["arguments"])
    except ValueError as error:
        raise ValueError(f"--arguments must be JSON: {error}") from None
    kind, target, _ = resolved(options["target"], options["kind"])
    said = ("name", "timing", "queue", "priority", "time_zone", "starts_at", "missed")
    columns = {name: options[name] for name in (*said, "catch_up_within", "overlap")}
    row = Schedule(kind=kind, target=target, arguments=arguments, **columns)
    row._state.db = using
    row.full_clean()
    row.save(using=using, force_insert=True)
    return f"{row.name}: {row.timing}, next at {next_tick(row) or 'never'}"


def pause(row: Schedule) -> str:
    row.pause()
    return f"{row.name} is paused"


def resume(row: Schedule) -> str:
    row.resume()
    return f"{row.name}: next at {next_tick(row) or 'never'}"


def run_one(row: Schedule) -> str:
    with override(settings.LANGUAGE_CODE):  # as in a worker: code of the project's may run
        tick = run_now(row, "manage.py dbqueue schedule run")
    return f"{row.name}: enqueued {tick.target} {tick.job}".rstrip()


def delete(row: Schedule) -> str:
    if row.is_declared:
        raise ValueError(f"{row.name} is declared in code: remove it there, or pause it")
    row.delete()
    return f"{row.name} is deleted"


VERBS: dict[str, Callable[[Schedule], str]] = {
    "pause": pause,
    "resume": resume,
    "run": run_one,
}
SCHEDULE = Verb("jobs at times: list, add, pause, resume, run, delete", add_arguments, run)
