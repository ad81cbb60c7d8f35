"""How schedules are read, and deleted with their ticks."""

from typing import TYPE_CHECKING

from django.db import models, router, transaction

if TYPE_CHECKING:
    from .models import Schedule  # noqa: F401  # its rows


class ScheduleQuerySet(models.QuerySet["Schedule"]):
    def delete(self) -> tuple[int, dict[str, int]]:
        """With their ticks: locked, so that none comes meanwhile."""
        using = self._db or router.db_for_write(self.model)  # type: ignore[attr-defined]
        # Found first, then locked by key: no row of another schedule is waited for.
        keys = list(self.using(using).order_by().values_list("pk", flat=True))
        rows = self.model._base_manager.using(using).filter(pk__in=keys)
        with transaction.atomic(using=using):
            list(rows.order_by("pk").select_for_update().values_list("pk"))
            return rows.delete()

    delete.alters_data = True  # type: ignore[attr-defined]
    delete.queryset_only = True  # type: ignore[attr-defined]


class ScheduleManager(models.Manager.from_queryset(ScheduleQuerySet)):  # type: ignore[misc]
    """It reads where it writes: of a replica nobody could pause them, and it may be behind."""

    def get_queryset(self) -> ScheduleQuerySet:
        rows: ScheduleQuerySet = super().get_queryset()
        return rows.using(self._db or router.db_for_write(self.model))
