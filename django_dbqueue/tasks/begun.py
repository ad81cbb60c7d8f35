"""Whether a task that is claimed has begun, or is only fetched ahead.

Its own row does not tell: that would be a statement more for each task. The row of its worker does,
which has what runs, rewritten with each beat; and a child runs what it has claimed in order.
"""

from typing import Any

from ..current import current_job
from ..models import Worker
from ..models.worker import SHOWN_MAX
from ..monitor.worker_list import running_jobs
from ..states import Status


def has_begun(row: Any) -> bool:
    """Of a claimed row, by two statements. Where nobody can tell, it has. What runs next to others
    in one child is known from the worker's next beat on."""
    job = current_job()
    if job is not None and (type(job), job.pk) == (type(row), row.pk):
        return True
    child, mark, _ = str(row.owner).rpartition("-")
    uuid = str(row.owner).partition(".")[0]
    rows = Worker.objects.using(row._state.db).filter(pk=uuid, stopped_at=None)
    worker = rows.first()
    if worker is None:
        return True  # of a loop of the project's own
    running = running_jobs(worker)
    if len(running) >= SHOWN_MAX or f"{row._meta.label_lower} {row.pk}" in dict(running):
        return True
    return bool(row.pk == _first(row, f"{child}{mark}" or f"{uuid}."))


def _first(row: Any, child: str) -> Any:
    """The first one of those that a child has claimed and not ended."""
    rows = type(row)._base_manager.using(row._state.db)
    held = rows.filter(status=Status.CLAIMED, retry_at__isnull=False, owner__startswith=child)
    found = held.values_list("owner", "priority", "pk")
    return min(
        ((_number(owner), priority, pk) for owner, priority, pk in found), default=(0, 0, 0)
    )[2]


def _number(owner: str) -> int:
    """Of the claim, in its child."""
    number = owner.rpartition("-")[2].rpartition(".")[2]
    return int(number) if number.isdecimal() else 0
