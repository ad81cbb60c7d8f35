"""``manage.py dbqueue pause`` and ``resume``."""

import json
from argparse import ArgumentParser, ArgumentTypeError
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.utils import timezone

from ..fields import check_name
from ..models.queue import FOR_GOOD
from ..monitor.alerts import pause_end
from ..operate.pausing import pause, resume
from ..worker.served import Served, parse_served
from .choosing import add_tables, name_of
from .durations import duration
from .verbs import Refused, Verb


def add_names(parser: ArgumentParser) -> None:
    add_tables(parser)
    parser.add_argument(
        "--queue", action="append", default=[], help="of these tables, or of all; more than once"
    )
    parser.add_argument("--all", action="store_true", help="all queues of all queue tables")


def add_pause(parser: ArgumentParser) -> None:
    add_names(parser)
    parser.add_argument(
        "--for",
        type=while_of,
        dest="seconds",
        metavar="TIME",
        help="10m, 2h; default: until resume",
    )
    parser.add_argument("--reason", default="", help="is shown where it is paused")


def while_of(text: str) -> float:
    seconds = duration(text)
    if not seconds:
        raise ArgumentTypeError("it must be more than 0 seconds")
    return seconds


def run_pause(options: dict[str, Any]) -> str:
    seconds, reason = options["seconds"], options["reason"]
    found = [(one, queue) for one in named(options) for queue in pause(one, seconds, reason)]
    end = FOR_GOOD if seconds is None else timezone.now() + timedelta(seconds=seconds)
    said = f"paused {pause_end(end)}" + (f": {reason}" if reason else "")
    return told(found, options, said)


def run_resume(options: dict[str, Any]) -> str:
    found = [(one, queue) for one in named(options) for queue in resume(one)]
    return told(found, options, "resumed")


def named(options: dict[str, Any]) -> list[Served]:
    """Queues of tables, or whole tables; all of them are looked at before anything is done."""
    tables, queues = options["tables"], options["queue"]
    if options["all"] and (tables or queues):
        raise Refused("--all goes with neither a table nor --queue")
    if not (tables or queues or options["all"]):
        word = options["verb"]
        raise Refused(f"{word} what? Name TABLE:QUEUE or a whole TABLE, or give --queue or --all.")
    for queue in queues:
        check_name(queue, "queue")
    served = parse_served(tables, options["database"])
    if queues and (twice := [one for one in served if one.queue]):
        raise Refused(f"{twice[0]} names its queue: give no --queue with it")
    return [replace(one, queue=queue) for one in served for queue in queues or [one.queue]]


def told(found: list[tuple[Served, str]], options: dict[str, Any], said: str) -> str:
    if options["json"]:
        rows = [{"table": one.label, "queue": queue, "database": one.using} for one, queue in found]
        return json.dumps(rows, indent=2)
    tables = [one for one, _ in found]
    lines = [f"{name_of(replace(one, queue=queue), tables)} {said}" for one, queue in found]
    return "\n".join(lines or ["no queue is paused"])


PAUSE = Verb("stop claims from queues; what runs goes on", add_pause, run_pause)
RESUME = Verb("let claims from queues go on", add_names, run_resume)
