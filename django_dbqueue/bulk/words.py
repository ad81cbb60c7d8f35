"""What a bulk action does, to which jobs, and how far it is, in the language of the reader."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..lifecycle.table import Table
from ..states import Status
from ..texts.wording import changed, digits, number, state_word
from .log_entry import result_of

UNDER_WAY_MAX = 10  # of which the first page tells how far they are
FILTERS = {
    "state": gettext_lazy("state"),
    "queue": gettext_lazy("queue"),
    "failure": gettext_lazy("failure"),
    "created_at": gettext_lazy("created"),
    "failed_at": gettext_lazy("failed"),
    "finished_at": gettext_lazy("finished"),
}


def which(choice: Any) -> str:
    """``state = buried, queue = mail``."""
    if not isinstance(choice, Mapping):
        return str(choice)  # a hand wrote it
    names = [*(name for name in FILTERS if name in choice), *(choice.keys() - FILTERS.keys())]
    said = [f"{FILTERS.get(name, name)} = {_value(name, choice[name])}" for name in names]
    return ", ".join(said) or _("all of the table")


def _value(name: str, value: Any) -> str:
    if name == "state":
        return state_word(str(value))
    if not isinstance(value, Mapping):
        return str(value)
    begin, end = (_moment(value.get(word)) for word in ("from", "until"))
    if begin and end:
        return _("from %(begin)s until %(end)s") % {"begin": begin, "end": end}
    return _("since %s") % begin if begin else _("until %s") % end


def _moment(text: Any) -> str:
    if not text:
        return ""
    try:
        moment = datetime.fromisoformat(str(text))
        shown = timezone.localtime(moment) if timezone.is_aware(moment) else moment
    except (ValueError, OverflowError):
        return str(text)
    return f"{shown:%Y-%m-%d %H:%M:%S}"


def named(row: Any) -> str:
    return _("bulk action %(key)s") % {"key": row.pk}


def progress(row: Any) -> str:
    """``3,000 of 26,600 (11 %): 2,990 changed``; '' where it has not begun."""
    if row.total is None:
        return ""
    # What it has moved ahead of itself it meets again.
    seen = min(row.seen, row.total)
    share = digits(f"{100 * seen / row.total:.0f}") if row.total else "100"
    text = _("%(done)s of %(total)s (%(share)s %%)")
    text %= {"done": number(seen), "total": number(row.total), "share": share}
    return f"{text}: {result(row)}"


def result(row: Any) -> str:
    counts = row.counts if isinstance(row.counts, Mapping) else {}
    return changed(result_of(counts))


def reasons(table: Table, key: Any) -> list[str]:
    """For ``diagnose.REASONS``."""
    row = table.model._base_manager.using(table.connection.alias).filter(pk=key).first()
    said = progress(row) if row is not None else ""
    return [_("Progress: %(progress)s.") % {"progress": said}] if said else []


def under_way(table: Table) -> list[str]:
    """For ``monitor.overview.UNDER_WAY``."""
    rows = table.model._base_manager.using(table.connection.alias)
    claimed = rows.filter(status=Status.CLAIMED, retry_at__isnull=False, total__isnull=False)
    shown = claimed.order_by("retry_at")[:UNDER_WAY_MAX]
    return [f"{named(row)}: {progress(row)}" for row in shown]
