"""``manage.py dbqueue failed``: what is buried, and why."""

import json
from argparse import ArgumentParser
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.db.utils import Error
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..exceptions import first_line
from ..operate.choice import Choice
from ..operate.walking import chunks
from ..states import Status
from ..worker.served import Served
from .advice import with_advice
from .choosing import add_filters, add_tables, choice_of, name_of, refuse_patterns, tables_of
from .commands._log import printable
from .commands._text import aligned
from .reporting import VERSION
from .verbs import ProblemsFound, Verb

LISTED = 50  # unless --limit says otherwise
CHUNK_ROWS = 100
ERROR_CHARS = 100
Row = tuple[Served, dict[str, Any]]
COLUMNS = ("pk", "queue", "attempts", "finished_at", "errors")


def add_arguments(parser: ArgumentParser) -> None:
    add_tables(parser)
    add_filters(parser)


def run(options: dict[str, Any]) -> str:
    tables = tables_of(options)
    refuse_patterns(tables, options["queue"])
    limit = options["limit"] or LISTED
    problems: dict[Served, Exception] = {}
    found = list(islice(failed(tables, choice_of(options), problems), limit + 1))
    if problems and len(problems) == len(tables):
        raise problems[tables[0]]
    text = shown(found[:limit], tables, options, more=len(found) > limit)
    if problems:
        cannot = _("%(name)s cannot be asked: %(why)s")
        said = [
            cannot % {"name": name_of(served, tables), "why": first_line(error)}
            for served, error in problems.items()
        ]
        raise ProblemsFound(text, printable(with_advice("\n".join(said), options["database"])))
    return text


def shown(
    rows: list[Row], tables: tuple[Served, ...], options: dict[str, Any], *, more: bool
) -> str:
    if options["json"]:
        only = [row for _served, row in rows]
        return json.dumps({"version": VERSION, "failed": only, "more": more}, indent=2)
    if not rows:
        return _("no failed jobs")
    head = [_("table"), "id", _("queue"), _("attempts"), _("failed at (UTC)"), _("error")]
    text = aligned([head, *(line(name_of(served, tables), row) for served, row in rows)])
    return "\n".join([text, *([_("There are more: --limit shows them.")] if more else [])])


def failed(
    tables: tuple[Served, ...], choice: Choice, problems: dict[Served, Exception]
) -> Iterator[Row]:
    """Table by table, the newest jobs first; ``problems`` gets those that cannot be asked."""
    away: dict[str, Exception] = {}
    for served in tables:
        if served.using in away:  # each try may take as long as the first
            problems[served] = away[served.using]
            continue
        try:
            yield from failed_in(served, choice)
        except (ImproperlyConfigured, ImportError) as error:  # no driver
            problems[served] = away[served.using] = error
        except Error as error:
            problems[served] = error
            if connections[served.using].connection is None:
                away[served.using] = error


def failed_in(served: Served, choice: Choice) -> Iterator[Row]:
    for keyset in choice.keysets(served, {Status.BURIED}):
        names = {*COLUMNS, *keyset.order.names}
        rows = keyset.queryset.select_related(None).only(*names)
        for chunk in chunks(keyset.of(rows), CHUNK_ROWS):
            yield from ((served, told(served, job)) for job in chunk if choice.matches(job))


def told(served: Served, job: Any) -> dict[str, Any]:
    return {
        "table": served.label,
        "database": served.using,
        "id": job.pk if isinstance(job.pk, int) else str(job.pk),
        "queue": job.queue,
        "attempts": job.attempts,
        "failed_at": in_utc(job.finished_at),
        "error": job.last_error,
    }


def line(table: str, row: dict[str, Any]) -> list[str]:
    names = ("id", "queue", "attempts", "failed_at")
    return [table, *(str(row[name]) for name in names), shortened(row)]


def in_utc(instant: datetime | None) -> str:
    if instant is None:
        return _("unknown")
    aware = instant if timezone.is_aware(instant) else timezone.make_aware(instant)
    return aware.astimezone(UTC).isoformat(" ", "seconds").partition("+")[0]


def shortened(row: dict[str, Any]) -> str:
    text = str(row["error"]).partition("\n")[0]
    return text if len(text) <= ERROR_CHARS else text[: ERROR_CHARS - 1] + "…"


FAILED = Verb(gettext_lazy("what is buried, the newest first, and why"), add_arguments, run)
