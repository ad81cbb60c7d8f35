"""Pausing and resuming queues: one, all of a table, or all that there are on a database."""

from typing import Any

from ..fields import DbNow
from ..lifecycle.limiter import base_of
from ..models import Queue
from ..models.queue import ALL
from ..worker.served import Served, all_served


def pause(served: Served, seconds: float | None, reason: str) -> None:
    """Stop claims from a queue of a table, or from all of its queues, for some seconds, or until
    they are resumed."""
    _manager(served).pause(served.queue or ALL, seconds, reason)


def resume(served: Served) -> None:
    """End what was paused by the same word: a queue that was paused by itself stays so."""
    _manager(served).resume(served.queue or ALL)


def pause_everything(using: str, seconds: float | None, reason: str) -> None:
    """The same of all queues of all tables of a database, but for workers with ``--force``."""
    Queue.objects.db_manager(using).pause_everything(seconds, reason)


def resume_everything(using: str) -> None:
    Queue.objects.db_manager(using).resume_everything()


def still_paused(served: Served) -> str:
    """What wider pause, of the queue that it is a lane of, of all of its table or of everything,
    still holds for it, the widest one; else ''."""
    wide = {ALL, base_of(served.model, served.queue or ALL)} - {served.queue}
    pauses = Queue.objects.db_manager(served.using).pauses(served.job_table)
    wider = pauses.filter(name__in=wide).order_by("job_table", "name").first()
    return wider.scope if wider else ""


def paused_within(one: Served | str) -> list[str]:
    """Of a whole table, or of all that there are on a database, what is paused by itself."""
    using = one.using if isinstance(one, Served) else one
    queues = Queue.objects.using(using).filter(paused_until__gt=DbNow()).exclude(job_table=ALL)
    titles = {served.job_table: served.title for served in all_served(using)}
    if isinstance(one, Served):
        within = queues.filter(job_table=one.job_table).exclude(name=ALL)
        return [] if one.queue else [f"{one.title}:{name}" for name in _names(within)]
    return [
        title if name == ALL else f"{title}:{name}"
        for job_table, title in titles.items()
        for name in _names(queues.filter(job_table=job_table))
    ]


def _names(queues: Any) -> list[str]:
    return list(queues.order_by("name").values_list("name", flat=True))


def _manager(served: Served) -> Any:
    # Not its queryset: a manager of the project's own may show some of the jobs alone.
    return served.model._default_manager.db_manager(served.using)
