"""``manage.py dbqueue pause`` and ``resume``."""

import json
from argparse import ArgumentParser, ArgumentTypeError
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.utils import timezone

from ..models import Queue
from ..models.queue import ALL, FOR_GOOD
from ..monitor.alerts import pause_end
from ..operate.pausing import (
    pause,
    pause_everything,
    resume,
    resume_everything,
    still_paused,
)
from ..operate.recording import record_of
from ..worker.served import Served, parse_served
from .choosing import add_tables, name_of, refuse_patterns
from .durations import duration
from .recording import add_user, user_of
from .verbs import Refused, Verb

VERSION = 1  # of the JSON


def add_names(parser: ArgumentParser) -> None:
    add_tables(parser)
    parser.add_argument(
        "--queue", action="append", default=[], help="of these tables, or of all; more than once"
    )
    parser.add_argument("--all", action="store_true", help="all queues of all queue tables")
    add_user(parser)


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
    end = FOR_GOOD if seconds is None else timezone.now() + timedelta(seconds=seconds)
    said = f"paused {pause_end(end)}" + (f": {reason}" if reason else "")
    found, user = named(options), user_of(options)
    for one in found:
        if isinstance(one, Served):
            pause(one, seconds, reason)
        else:
            pause_everything(one, seconds, reason)
        note(user, one, said)
    return told(found, options, said)


def run_resume(options: dict[str, Any]) -> str:
    found, user = named(options), user_of(options)
    for one in found:
        if isinstance(one, Served):
            resume(one)
        else:
            resume_everything(one)
        note(user, one, "resumed")
    return told(found, options, "resumed")


def note(user: Any, one: Served | str, said: str) -> None:
    """In the admin's log, where it is known who gives the command."""
    if user is None:
        return
    what = f"{one.title}, queue {one.queue or ALL}" if isinstance(one, Served) else f"all on {one}"
    text = f"{said[:1].upper()}{said[1:]}: {what}"
    record_of(user, Queue, what, text, using=one.using if isinstance(one, Served) else one)


def named(options: dict[str, Any]) -> list[Served | str]:
    """Queues of tables, whole tables, or with ``--all`` the aliases of databases; all of them are
    looked at before anything is done."""
    tables, queues = options["tables"], options["queue"]
    if options["all"] and (tables or queues):
        raise Refused("--all goes with neither a table nor --queue")
    if not (tables or queues or options["all"]):
        word = options["verb"]
        raise Refused(f"{word} what? Name TABLE:QUEUE or a whole TABLE, or give --queue or --all.")
    served = parse_served(tables, options["database"])
    if options["all"]:
        return [*dict.fromkeys(one.using for one in served)]
    refuse_patterns(served, queues)
    if queues and (twice := [one for one in served if one.queue]):
        raise Refused(f"{twice[0]} names its queue: give no --queue with it")
    return [replace(one, queue=queue) for one in served for queue in queues or [one.queue]]


def told(found: list[Served | str], options: dict[str, Any], said: str) -> str:
    tables = [one for one in found if isinstance(one, Served)]
    if options["json"]:
        rows = [
            {"table": one.label, "queue": one.queue or ALL, "database": one.using}
            if isinstance(one, Served)
            else {"table": ALL, "queue": ALL, "database": one}
            for one in found
        ]
        return json.dumps({"version": VERSION, "verb": options["verb"], "queues": rows}, indent=2)
    lines = []
    for one in found:
        if isinstance(one, Served):
            scope = still_paused(one) if options["verb"] == "resume" else ""
            more = f", but {scope} is still paused" if scope else ""
            lines.append(f"{name_of(one, tables)} {said}{more}")
        else:
            lines.append(f"everything on {one} {said}")
    return "\n".join(lines)


PAUSE = Verb("stop claims from queues; what runs goes on", add_pause, run_pause)
RESUME = Verb("let claims from queues go on", add_names, run_resume)
