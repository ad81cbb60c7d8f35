"""``manage.py dbqueue schedule``: list, add, pause, resume, run now and delete."""

import json
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import router
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, override, pgettext

from ..exceptions import Told, gettext_noop, shown
from ..guard import capture
from ..management.commands._text import aligned
from ..management.commands._types import alias
from ..management.verbs import Verb
from .firing import run_now, why_not
from .models import Overlap, Schedule, as_utc
from .planning import Missed
from .problems import problems_in_words
from .synchronise import resolved
from .timing import check_start


class UnknownSchedule(Told):
    """No schedule has this name."""


def add_arguments(parser: ArgumentParser) -> None:
    acts = parser.add_subparsers(dest="act", required=True)
    listed = acts.add_parser("list", help=_("all schedules, and when they tick next"))
    listed.add_argument("--json", action="store_true", help=_("for programs"))
    add = acts.add_parser("add", help=_("a schedule by name"))
    add.add_argument("name", metavar="NAME")
    timing = _("'every 10 s', or '0 3 * * 1-5'")
    add.add_argument("timing", metavar="TIMING", help=timing)
    target = _("app.Model, or a task's dotted path")
    add.add_argument("target", metavar="TARGET", help=target)
    arguments = _("JSON: the job's columns, or args and kwargs")
    add.add_argument("--arguments", default="{}", help=arguments)
    kind = _("of target; told by TARGET, if it can be")
    add.add_argument("--kind", default="", help=kind)
    add.add_argument("--queue")
    add.add_argument("--priority", type=int)
    add.add_argument("--time-zone", default="", help=_("such as Europe/Berlin"))
    add.add_argument("--starts-at", type=instant, help="2031-05-05T05:05:05+00:00")
    add.add_argument("--missed", choices=Missed.values, default=Missed.LATEST)
    add.add_argument("--catch-up-within", type=int, default=86400, help=_("seconds"))
    add.add_argument("--overlap", choices=Overlap.values, default=Overlap.ALLOW)
    for act, words in ACTS.items():
        one = acts.add_parser(act, help=str(words))
        one.add_argument("name", metavar="NAME")
    for one in acts.choices.values():
        one.add_argument("--database", type=alias, help=_("on which the schedule is"))


ACTS = {
    "pause": gettext_lazy("no tick until it is resumed"),
    "resume": gettext_lazy("from now on"),
    "run": gettext_lazy("enqueue one job now"),
    "delete": gettext_lazy("with what became of its ticks"),
}


def instant(text: str) -> datetime:
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        why = _("%(given)s is no time such as 2026-11-26T03:00")
        raise ArgumentTypeError(why % {"given": shown(text)}) from None
    try:
        return as_utc(check_start(given))
    except ValidationError as error:
        raise ArgumentTypeError(problems_in_words(error)) from None


def run(options: dict[str, Any]) -> str:
    using = options["database"] or router.db_for_write(Schedule)
    if options["act"] == "list":
        return list_all(using, options["json"])
    try:
        if options["act"] == "add":
            return add(options)
        return act(options["act"], named(options["name"], using))
    except ValidationError as error:
        raise ValueError(problems_in_words(error)) from error


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
    head = [_("schedule"), _("timing"), _("time zone"), _("target"), _("next tick (UTC)")]
    head += [_("state")]
    lines = [
        [row.name, row.timing, row.zone, row.target, in_words(next_tick(row)), state_of(row)]
        for row in rows
    ]
    return aligned([head, *lines]) if lines else _("no schedules")


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


def in_words(tick: str | None) -> str:
    return pgettext("no tick comes", "never") if tick is None else tick


def state_of(row: Schedule) -> str:
    return _("paused") if row.is_paused else row.error


def named(name: str, using: str) -> Schedule:
    row = Schedule.objects.using(using).filter(name=name).first()
    if row is None:
        text = gettext_noop("%(name)s is no schedule; manage.py dbqueue schedule list")
        raise UnknownSchedule(text, name=shown(name))
    return row


def add(options: dict[str, Any]) -> str:
    try:
        arguments = json.loads(options["arguments"])
    except ValueError as error:
        text = _("--arguments must be JSON: %(why)s")
        raise ValueError(text % {"why": error}) from None
    kind, target, model = resolved(options["target"], options["kind"])
    using = options["database"] or router.db_for_write(model or Schedule)
    given = ("name", "timing", "queue", "priority", "time_zone", "starts_at", "missed")
    columns = {name: options[name] for name in (*given, "catch_up_within", "overlap")}
    row = Schedule(kind=kind, target=target, arguments=arguments, **columns)
    check(row, using)
    row.save(using=using, force_insert=True)
    text = _("%(name)s: %(timing)s, next at %(tick)s")
    said = text % {"name": row.name, "timing": row.timing, "tick": in_words(next_tick(row))}
    # What the other acts need to find it.
    is_found = using == router.db_for_write(Schedule)
    return said if is_found else f"{said} (--database {using})"


def check(row: Schedule, using: str) -> None:
    row._state.db = using
    row.full_clean(validate_unique=False)  # Django would look for its name on the default database
    if Schedule.objects.using(using).filter(name=row.name).exists():
        raise ValidationError({"name": row.unique_error_message(Schedule, ("name",))})
    row.target_kind().check_database(row.target, using)


def pause(row: Schedule) -> str:
    row.pause()
    return _("%(name)s is paused") % {"name": row.name}


def resume(row: Schedule) -> str:
    row.resume()
    text = _("%(name)s: next at %(tick)s")
    return text % {"name": row.name, "tick": in_words(next_tick(row))}


def run_one(row: Schedule) -> str:
    with override(settings.LANGUAGE_CODE):  # as in a worker: code of the project's may run
        tick = run_now(row, "manage.py dbqueue schedule run")
    text = _("%(name)s: enqueued %(target)s %(job)s")
    return (text % {"name": row.name, "target": tick.target, "job": tick.job}).rstrip()


def delete(row: Schedule) -> str:
    if row.is_declared:
        text = _("%(name)s is declared in code: remove it there, or pause it")
        raise ValueError(text % {"name": row.name})
    row.delete()
    return _("%(name)s is deleted") % {"name": row.name}


VERBS: dict[str, Callable[[Schedule], str]] = {
    "pause": pause,
    "resume": resume,
    "run": run_one,
}
SCHEDULE = Verb(
    gettext_lazy("jobs at times: list, add, pause, resume, run, delete"), add_arguments, run
)
