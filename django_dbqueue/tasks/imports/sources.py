"""What waits in another backend's tables, what is left there, and what a row's removal takes."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import connections
from django.db.models import Case, Exists, F, OuterRef, QuerySet, Value, When
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from . import tables

WAITING = "waiting"


class Source:
    """Another backend's tables on one database. ``left``: a sentence for each other state."""

    name = ""
    release = ""
    needs: Sequence[Any] = ()
    left: dict[str, Any] = {}

    def __init__(self, using: str) -> None:
        self.using = using
        tables.check_tables(list(self.needs), using, self.release)

    def jobs(self) -> QuerySet[Any]:
        """All of its rows, each with its ``state``."""
        raise NotImplementedError

    def locked(self, keys: list[UUID]) -> list[Any]:
        """Those of the rows that still wait, and that nobody but this transaction may claim."""
        raise NotImplementedError

    def remove(self, keys: list[UUID]) -> int:
        """Delete rows, and what belongs to them; how many rows waited."""
        raise NotImplementedError

    def notes(self) -> list[str]:
        """What else is there that a person should know of."""
        return []

    def _delete(self, one: Any, keys: list[Any]) -> int:
        """One by one, as a server may look through a small table for several, and so wait for
        locks on other rows; how many there were."""
        if not keys:
            return 0
        connection, pk = connections[self.using], one._meta.pk
        name, column = map(connection.ops.quote_name, (one._meta.db_table, pk.column))
        raw = [[pk.get_db_prep_value(key, connection)] for key in keys]
        with connection.cursor() as cursor:
            cursor.executemany(f"DELETE FROM {name} WHERE {column} = %s", raw)
            return int(cursor.rowcount)

    def _free(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Lock rows, passing over those that a worker is about to claim."""
        skips = connections[self.using].features.has_select_for_update_skip_locked
        return rows.select_for_update(skip_locked=skips)


class DjangoTasksDB(Source):
    name = "django-tasks-db"
    release = "django-tasks-db 0.13"
    needs = (tables.DJANGO_TASKS_DB,)
    left = {
        "RUNNING": gettext_lazy(
            "left there: %(number)s running: stop db_worker, let them end, and import again for "
            "the rest"
        ),
        "SUCCESSFUL": gettext_lazy(
            "left there: %(number)s finished: they and their results stay there"
        ),
        "FAILED": gettext_lazy("left there: %(number)s failed: they stay there"),
    }

    def jobs(self) -> QuerySet[Any]:
        state = Case(When(status="READY", then=Value(WAITING)), default=F("status"))
        rows: Any = tables.DJANGO_TASKS_DB.objects.using(self.using)
        annotated: QuerySet[Any] = rows.annotate(state=state)
        return annotated

    def locked(self, keys: list[UUID]) -> list[Any]:
        return list(self._free(self.jobs().filter(pk__in=keys, status="READY")))

    def remove(self, keys: list[UUID]) -> int:
        return self._delete(tables.DJANGO_TASKS_DB, keys)


class DjQueue(Source):
    name = "dj-queue"
    release = "dj-queue 0.14.2"
    queued = (tables.DJ_QUEUE_READY, tables.DJ_QUEUE_SCHEDULED)
    needs = (
        *(tables.DJ_QUEUE_JOBS, *queued, tables.DJ_QUEUE_CLAIMED, tables.DJ_QUEUE_BLOCKED),
        *(tables.DJ_QUEUE_FAILED, tables.DJ_QUEUE_TICKS, tables.DJ_QUEUE_RECURRING),
        tables.DJ_QUEUE_PAUSES,
    )
    left = {
        "claimed": gettext_lazy(
            "left there: %(number)s running: stop manage.py dj_queue, and import again for the rest"
        ),
        "finished": gettext_lazy(
            "left there: %(number)s finished: they and their results stay there"
        ),
        "failed": gettext_lazy(
            "left there: %(number)s failed: they stay there, also those with a time to be retried"
        ),
        "blocked": gettext_lazy(
            "left there: %(number)s blocked by their concurrency key: let dj-queue's workers "
            "finish them"
        ),
        "limited": gettext_lazy(
            "left there: %(number)s limited by a concurrency key, which is not taken over: let "
            "dj-queue's workers finish them"
        ),
        "stateless": gettext_lazy(
            "left there: %(number)s in no state at all: look at them in dj-queue's admin"
        ),
    }

    def jobs(self) -> QuerySet[Any]:
        state = Case(
            When(finished_at__isnull=False, then=Value("finished")),
            When(self._has(tables.DJ_QUEUE_CLAIMED), then=Value("claimed")),
            When(self._has(tables.DJ_QUEUE_FAILED), then=Value("failed")),
            When(self._has(tables.DJ_QUEUE_BLOCKED), then=Value("blocked")),
            When(concurrency_key__gt="", then=Value("limited")),
            *(When(self._has(one), then=Value(WAITING)) for one in self.queued),
            default=Value("stateless"),
        )
        rows: Any = tables.DJ_QUEUE_JOBS.objects.using(self.using)
        annotated: QuerySet[Any] = rows.annotate(state=state)
        return annotated

    def locked(self, keys: list[UUID]) -> list[Any]:
        free = [
            key
            for one in self.queued
            for key in self._free(self._rows(one, keys)).values_list("job_id", flat=True)
        ]
        return list(self.jobs().filter(pk__in=free, state=WAITING))

    def remove(self, keys: list[UUID]) -> int:
        ticks = self._rows(tables.DJ_QUEUE_TICKS, keys)
        if found := list(ticks.values_list("pk", flat=True)):
            # With an id that is nobody's, its scheduler would enqueue that tick once more.
            all_ticks = tables.DJ_QUEUE_TICKS.objects.using(self.using)
            all_ticks.filter(pk__in=found).update(job_id=None, intended_job_id=None)
        waited = sum(
            self._delete(one, list(self._rows(one, keys).values_list("pk", flat=True)))
            for one in self.queued
        )
        return min(waited, self._delete(tables.DJ_QUEUE_JOBS, keys))

    def notes(self) -> list[str]:
        pauses = tables.DJ_QUEUE_PAUSES.objects.using(self.using)
        names = sorted(set(pauses.values_list("queue_name", flat=True)))
        text = _("paused there, and not here: %(names)s")
        found = [text % {"names": ", ".join(names)}] if names else []
        if count := tables.DJ_QUEUE_RECURRING.objects.using(self.using).count():
            text = ngettext(
                "%(number)s recurring tasks are declared there, and are not taken over",
                "%(number)s recurring tasks are declared there, and are not taken over",
                count,
            )
            found.append(text % {"number": count})
        return found

    def _rows(self, one: Any, keys: list[UUID]) -> Any:
        return one.objects.using(self.using).filter(job_id__in=keys)

    @staticmethod
    def _has(one: Any) -> Exists:
        return Exists(one.objects.filter(job_id=OuterRef("pk")))


SOURCES: dict[str, type[Source]] = {one.name: one for one in (DjangoTasksDB, DjQueue)}
