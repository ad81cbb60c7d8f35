"""Example jobs for a first look at the admin: in a queue of their own, which is paused, so that no
worker runs them."""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.apps import apps
from django.core.exceptions import ValidationError
from django.db import Error, models, transaction
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

from ..exceptions import Bury, DBQueueError
from ..fields import DbNow
from ..lifecycle import claim, operator
from ..lifecycle.policy import policy_of
from ..lifecycle.table import Table, table_of
from ..models import Minute, Queue
from ..models.queryset import new_owner
from ..states import Status
from ..worker.served import Served, parse_tables
from .columns import CannotFill, guess
from .history import forget_failures, write_failures, write_history

QUEUE = "demo"
REASON = "examples, which `manage.py dbqueue demo-data --remove` deletes"  # also marks them
IN_USE = gettext_noop(
    "its queue demo was not made by demo-data, or has been resumed since, and is left as it is; if "
    "its jobs are examples, delete them in the admin"
)
JOBS_MAX = 10_000
CHUNK_ROWS = 500
DELAYS = 20, 300, 1800, 4 * 3600, 3 * 86400  # seconds
# Of a hundred jobs; the others are ready.
SHARES = {"done": 48, "buried": 9, "retried": 10, "claimed": 6, "scheduled": 7}
EXAMPLES: dict[str, Callable[[int], Mapping[str, Any]]] = {}
"""By label, the own columns of the nth example, where an app's ``dbqueue_demo`` knows better than
``guess``; the columns of the lifecycle may be among them."""


class TooMany(ValueError):
    """More examples than the limit; nothing was written."""


@dataclass(frozen=True)
class Filled:
    """What was made, or removed, in one queue table, or why nothing was."""

    table: str
    jobs: int
    why_not: str = ""

    def __str__(self) -> str:
        text = ngettext(
            "%(table)s: %(number)s jobs in its queue %(queue)s",
            "%(table)s: %(number)s jobs in its queue %(queue)s",
            self.jobs,
        )
        if self.why_not:
            text = _("%(table)s: left out: %(why)s")
        values = {"number": self.jobs, "queue": QUEUE, "why": self.why_not}
        return text % {"table": self.table, **values}


def fill(jobs: int, tables: list[str], using: str | None = None) -> list[Filled]:
    """Make so many example jobs in each of these queue tables, none = all of one database or of
    all; ``TooMany`` beyond 10,000."""
    if not 1 <= jobs <= JOBS_MAX:
        text = _("--jobs must be at least 1 and at most %(most)s, not %(given)s")
        raise TooMany(text % {"most": JOBS_MAX, "given": jobs})
    chosen = parse_tables(tables, using)
    autodiscover_modules("dbqueue_demo")
    results = []
    for served in chosen:
        if _is_of_others(served):
            results.append(Filled(served.label, 0, _(IN_USE)))
            continue
        table = table_of(served.model, served.using)
        Queue.objects.db_manager(served.using).pause(served.job_table, QUEUE, None, REASON)
        try:
            Filler(table, random.Random(jobs)).fill(jobs)
        except (CannotFill, DBQueueError, ValidationError, Error) as error:
            _remove(served)
            why = " ".join(getattr(error, "messages", None) or [str(error)]).strip()
            results.append(Filled(served.label, 0, why))
        else:
            write_history(served.using, served.job_table, QUEUE)
            write_failures(table, QUEUE)
            results.append(Filled(served.label, jobs))
    return results


def remove(tables: list[str], using: str | None = None) -> list[Filled]:
    """Delete the example jobs, and what was recorded of them; what was asked of them, too."""
    return [
        Filled(served.label, 0, _(IN_USE)) if _is_of_others(served) else _remove(served)
        for served in parse_tables(tables, using)
    ]


def _is_of_others(served: Served) -> bool:
    """Whether something is in its queue ``demo`` that was not made here, as far as can be told."""
    asked = Queue.objects.using(served.using).filter(job_table=served.job_table, name=QUEUE)
    if asked.filter(pause_reason=REASON).exists():
        return False
    minutes = Minute.objects.using(served.using).filter(job_table=served.job_table, queue=QUEUE)
    return any(rows.exists() for rows in (*_jobs(served), minutes, asked))


def _jobs(served: Served) -> Iterator[models.QuerySet[Any]]:
    """Those of its queue ``demo``, and the archived ones."""
    archive = policy_of(served.model).archive
    for model in (served.model, *([apps.get_model(archive)] if archive else [])):
        yield model._default_manager.using(served.using).filter(queue=QUEUE)


def _remove(served: Served) -> Filled:
    count, *_archived = [rows.delete()[0] for rows in _jobs(served)]
    forget_failures(table_of(served.model, served.using), QUEUE)
    Minute.objects.using(served.using).filter(job_table=served.job_table, queue=QUEUE).delete()
    Queue.objects.using(served.using).filter(job_table=served.job_table, name=QUEUE).delete()
    return Filled(served.label, count)


class Filler:
    """Brings example jobs of one table into every state, by the verbs that a worker uses."""

    def __init__(self, table: Table, chance: random.Random) -> None:
        self.table = table
        self.chance = chance
        self.example = EXAMPLES.get(table.label) or partial(guess, table)
        self.number = 0

    def fill(self, jobs: int) -> None:
        """In this order, since a claim takes the oldest ready ones."""
        counts = {fate: jobs * share // 100 for fate, share in SHARES.items()}
        self._insert(counts["buried"] + counts["retried"])
        self._fail(counts["buried"], counts["retried"])
        self._insert(counts["done"])
        for job in self._claim(counts["done"]):
            job.complete()
        self._insert(counts["claimed"])
        for _job in self._claim(counts["claimed"]):
            pass
        pick, between = self.chance.choice, self.chance.uniform
        self._insert(
            counts["scheduled"], lambda: {"retry_at": DbNow(plus=pick(DELAYS) * between(0.5, 1))}
        )
        self._insert(jobs - sum(counts.values()))

    def _insert(self, count: int, more: Callable[[], dict[str, Any]] = dict) -> None:
        model, alias = self.table.model, self.table.connection.alias
        made = []
        for _each in range(count):
            self.number += 1
            age = DbNow(plus=-self.chance.expovariate(1 / 900))
            columns = {"created_at": age, **self.example(self.number), **more(), "queue": QUEUE}
            made.append(model(**columns))
        with transaction.atomic(using=alias):
            model._default_manager.using(alias).bulk_create(made, batch_size=CHUNK_ROWS)

    def _claim(self, count: int) -> Iterator[Any]:
        """Past the pause, which is there for all others."""
        while count > 0:
            taken = claim.claim(self.table, QUEUE, min(count, CHUNK_ROWS), new_owner())
            if not taken:
                return
            count -= len(taken)
            yield from taken

    def _fail(self, buried: int, retried: int) -> None:
        for job in self._claim(buried + retried):
            job.fail(some_error(self.chance), self.chance.uniform(0.1, 4))
        # Ready again, with the attempt that was used.
        operator.hasten(self.table, self._delayed(buried + retried), {"queue": QUEUE})
        for number, job in enumerate(list(self._claim(buried + retried))):
            error = Bury("the customer has left") if number < buried // 4 else None
            job.fail(error or some_error(self.chance), self.chance.uniform(0.1, 4))
        operator.bury(self.table, self._delayed(buried - buried // 4))

    def _delayed(self, most: int) -> list[operator.Seen]:
        model, alias = self.table.model, self.table.connection.alias
        rows = model._default_manager.using(alias).filter(queue=QUEUE, status=Status.DELAYED)
        seen = rows.order_by("pk").values_list("pk", "status", "owner")[:most]
        return [(self.table.db_key(pk), status, owner) for pk, status, owner in seen]


def some_error(chance: random.Random) -> Exception:
    """An error with a traceback, as a job would raise it."""
    error = chance.choice(
        (
            ConnectionError("the service answers 503: come back later"),
            TimeoutError("no answer from api.example within 10 s"),
            KeyError("address"),
            ValueError("'twelve' is no number"),
        )
    )
    try:
        raise error
    except (OSError, LookupError, ValueError) as raised:
        return raised
