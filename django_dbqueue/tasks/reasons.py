"""Why a task waits, and how far it is, as only tasks know."""

from typing import Any

from ..lifecycle.table import Table
from ..states import Status
from .models import Task

WAITING = (Status.READY, Status.DELAYED, Status.CLAIMED)


def reasons(table: Table, key: Any) -> list[str]:
    """For ``diagnose.REASONS``."""
    row = Task._base_manager.using(table.connection.alias).filter(pk=key).first()
    if row is None:
        return []
    found = []
    problem = row.found.problem
    if problem and row.status in WAITING:
        found.append(f"It waits for code that has it: {problem}.")
    if row.progress:
        found.append(f"Progress: {progress_text(row.progress)}.")
    return found


def progress_text(progress: Any) -> str:
    """``3 of 10 (30 %): note``, or what a hand wrote."""
    if not isinstance(progress, dict):
        return str(progress)
    done: Any = progress.get("done")
    total: Any = progress.get("total")
    note: Any = progress.get("note")
    text = f"{done} of {total} ({100 * done / total:.0f} %)" if total else str(done)
    return f"{text}: {note}" if note else text
