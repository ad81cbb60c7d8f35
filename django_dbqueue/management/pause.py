"""``manage.py dbqueue pause`` and ``resume``."""

import json
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db.utils import Error
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, override

from ..conf import nearest
from ..exceptions import first_line
from ..lifecycle.limiter import base_of
from ..models import Minute, Queue
from ..models.queue import ALL, FOR_GOOD
from ..monitor.alerts import pause_end
from ..monitor.report import busy_queues
from ..operate.pausing import (
    pause,
    pause_everything,
    paused_within,
    resume,
    resume_everything,
    still_paused,
)
from ..operate.recording import record_of
from ..texts.wording import number
from ..worker.served import Served, parse_served
from .advice import with_advice
from .choosing import add_tables, name_of, refuse_patterns, refuse_two_queues
from .commands._log import printable
from .commands._text import on
from .durations import duration
from .recording import add_user, user_of
from .verbs import ProblemsFound, Refused, Verb

VERSION = 1  # of the JSON
NAMED_MAX = 10  # queues that are still paused


def add_names(parser: ArgumentParser) -> None:
    add_tables(parser)
    queue = _("of these tables, or of all; more than once")
    parser.add_argument("--queue", action="append", default=[], help=queue)
    parser.add_argument("--all", action="store_true", help=_("all queues of all queue tables"))
    add_user(parser)


def add_pause(parser: ArgumentParser) -> None:
    add_names(parser)
    parser.add_argument(
        "--for",
        type=while_of,
        dest="seconds",
        metavar="TIME",
        help=_("10m, 2h; default: until resume"),
    )
    parser.add_argument("--reason", default="", help=_("is shown where it is paused"))


def while_of(text: str) -> float:
    seconds = duration(text)
    if not seconds:
        raise ArgumentTypeError(_("it must be more than 0 seconds"))
    return seconds


def run_pause(options: dict[str, Any]) -> str:
    seconds, reason = options["seconds"], options["reason"]
    end = FOR_GOOD if seconds is None else datetime.now(UTC) + timedelta(seconds=seconds)
    with override(None):  # the log is English in every language
        said = f"Paused {pause_end(end)}" + (f": {reason}" if reason else "")

    def do(one: Served | str) -> None:
        if isinstance(one, Served):
            pause(one, seconds, reason)
        else:
            pause_everything(one, seconds, reason)

    text = _("%(what)s paused %(end)s: %(reason)s") if reason else _("%(what)s paused %(end)s")
    values = {"end": pause_end(end), "reason": reason}

    def tell(done: list[Served | str], named: list[Served | str], *, looks: bool = True) -> str:
        one_of = told(done, named, options, lambda what, _scope: text % {"what": what, **values})
        notes = notes_on(done) if looks and not options["json"] else []
        return "\n".join([one_of, *notes])

    return one_by_one(options, do, said, tell)


def one_by_one(
    options: dict[str, Any],
    do: Callable[[Served | str], None],
    said: str,
    tell: Callable[..., str],
) -> str:
    """To all that is named; ``ProblemsFound`` with what was done before, where a database fails."""
    found, user = named(options), user_of(options)
    done: list[Served | str] = []
    for one in found:
        try:
            do(one)
            done.append(one)
            note(user, one, said)
        except (Error, ImproperlyConfigured, ImportError) as error:  # the last two: no driver
            if not done:
                raise
            name = _("everything on %(database)s") % {"database": one}
            if isinstance(one, Served):
                name = on(str(one), one.using)
            problem = _("%(name)s: %(why)s. What was done before is told above.")
            problem %= {"name": name, "why": first_line(error)}
            try:
                text = tell(done, found)
            except Error:  # it was the same database
                text = tell(done, found, looks=False)
            problem = printable(with_advice(problem, options["database"]))
            raise ProblemsFound(text, problem) from error
    return tell(done, found)


def notes_on(found: list[Served | str]) -> list[str]:
    """Of queues that may be misspelt: nothing happened there, but in one of a like name."""
    notes = []
    with suppress(Error):  # the pause holds, though our tables may be about to be migrated
        busy = {one: busy_names(one) for one in found if isinstance(one, Served) and one.queue}
        known = {one.queue for one, names in busy.items() if one.queue in names}
        for one, names in busy.items():
            near = "" if one.queue in known else nearest(str(one.queue), names)
            text = _("nothing happened in %(queue)s in the last 7 days; did you mean %(near)s?")
            if near:
                values = {"queue": f"{one.title}:{one.queue}", "near": f"{one.title}:{near}"}
                notes.append(text % values)
    return notes


def busy_names(one: Served) -> set[str]:
    """Of its queues, as workers have noted them; its own among them, however many there are."""
    names = set(busy_queues(one.using, [one.job_table])[one.job_table])
    queue = str(one.queue)
    own = Minute.objects.using(one.using).filter(job_table=one.job_table, queue=queue)
    names |= {queue} if own.exists() else set()
    return names | {base_of(one.model, name) for name in names}


def run_resume(options: dict[str, Any]) -> str:
    def do(one: Served | str) -> None:
        if isinstance(one, Served):
            resume(one)
        else:
            resume_everything(one)

    return one_by_one(options, do, "Resumed", partial(told, options=options, say=resumed))


def resumed(what: str, scope: str) -> str:
    """In words; ``scope`` is what still holds for it."""
    text = {
        "": _("%(what)s resumed"),
        "its queue": _("%(what)s resumed, but its queue is still paused"),
        "its whole table": _("%(what)s resumed, but its whole table is still paused"),
        "everything": _("%(what)s resumed, but everything is still paused"),
    }
    return text[scope] % {"what": what}


def note(user: Any, one: Served | str, said: str) -> None:
    """In the admin's log, where it is known who gives the command."""
    if user is None:
        return
    what = f"{one.title}, queue {one.queue or ALL}" if isinstance(one, Served) else f"all on {one}"
    text = f"{said}: {what}"
    record_of(user, Queue, what, text, using=one.using if isinstance(one, Served) else one)


def named(options: dict[str, Any]) -> list[Served | str]:
    """Queues of tables, whole tables, or with ``--all`` the aliases of databases; all of them are
    looked at before anything is done."""
    tables, queues = options["tables"], options["queue"]
    if options["all"] and (tables or queues):
        raise Refused(_("--all goes with neither a table nor --queue"))
    if not (tables or queues or options["all"]):
        text = _("%(verb)s what? Name TABLE:QUEUE or a whole TABLE, or give --queue or --all.")
        raise Refused(text % {"verb": options["verb"]})
    served = parse_served(tables, options["database"])
    if options["all"]:
        return [*dict.fromkeys(one.using for one in served)]
    refuse_patterns(served, queues)
    refuse_two_queues(served, queues)
    return [replace(one, queue=queue) for one in served for queue in queues or [one.queue]]


def told(
    found: list[Served | str],
    named: list[Served | str],
    options: dict[str, Any],
    say: Callable[[str, str], str],
    *,
    looks: bool = True,
) -> str:
    """``say`` is given what it was done to, and what is still paused, unless nobody ``looks``."""
    tables = [one for one in named if isinstance(one, Served)]
    if options["json"]:
        rows = [
            {"table": one.label, "queue": one.queue or ALL, "database": one.using}
            if isinstance(one, Served)
            else {"table": ALL, "queue": ALL, "database": one}
            for one in found
        ]
        return json.dumps({"version": VERSION, "verb": options["verb"], "queues": rows}, indent=2)
    lines, looks = [], looks and options["verb"] == "resume"
    for one in found:
        if isinstance(one, Served):
            scope = still_paused(one) if looks else ""
            lines.append(say(name_of(one, tables), scope))
        else:
            lines.append(say(_("everything on %(database)s") % {"database": one}, ""))
        if looks and (names := paused_within(one)):
            text = _("still paused by themselves: %(names)s")
            lines.append(text % {"names": listed(names)})
    return "\n".join(lines)


def listed(names: list[str]) -> str:
    shown = ", ".join(names[:NAMED_MAX])
    if not names[NAMED_MAX:]:
        return shown
    more = _("%(names)s and %(number)s more")
    return more % {"names": shown, "number": number(len(names[NAMED_MAX:]))}


PAUSE = Verb(gettext_lazy("stop claims from queues; what runs goes on"), add_pause, run_pause)
RESUME = Verb(gettext_lazy("let claims from queues go on"), add_names, run_resume)
