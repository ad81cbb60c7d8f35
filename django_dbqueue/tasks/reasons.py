"""Why a task waits, and how far it is, as only tasks know."""

from contextlib import suppress
from typing import Any

from django.utils.translation import gettext as _

from ..lifecycle.table import Table
from ..states import Status
from ..texts.wording import digits

UNDER_WAY_MAX = 10  # tasks of which ``dbqueue status`` tells how far they are
WAITING = (Status.READY, Status.DELAYED, Status.CLAIMED)


def reasons(table: Table, key: Any) -> list[str]:
    """For ``diagnose.REASONS``."""
    row = table.model._base_manager.using(table.connection.alias).filter(pk=key).first()
    if row is None:
        return []
    found = []
    problem = row.found.problem
    if problem and row.status in WAITING:
        found.append(_("It waits for code that has it: %(problem)s.") % {"problem": problem})
    if row.progress:
        found.append(_("Progress: %(progress)s.") % {"progress": progress_text(row.progress)})
    return found


def under_way(table: Table) -> list[str]:
    """For ``monitor.overview.UNDER_WAY``."""
    rows = table.model._base_manager.using(table.connection.alias)
    claimed = rows.filter(status=Status.CLAIMED, retry_at__isnull=False, progress__isnull=False)
    shown = claimed.order_by("retry_at")[:UNDER_WAY_MAX]
    return [f"{row}: {progress_text(row.progress)}" for row in shown]


def progress_text(progress: Any) -> str:
    """``3 of 10 (30 %): note``, or what a hand wrote."""
    if not isinstance(progress, dict):
        return str(progress)
    done: Any = progress.get("done")
    total: Any = progress.get("total")
    note: Any = progress.get("note")
    text = str(done)
    if isinstance(done, int | float) and isinstance(total, int | float) and total:
        with suppress(OverflowError):  # a whole number may be longer than any other
            share = digits(f"{100 * done / total:.0f}")
            words = _("%(done)s of %(total)s (%(share)s %%)")
            text = words % {"done": done, "total": total, "share": share}
    return f"{text}: {note}" if note else text
