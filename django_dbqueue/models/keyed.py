"""Queue tables whose jobs may share a concurrency key."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from django.db import models
from django.utils.translation import gettext_lazy

from ..fields import NameField
from ..lifecycle.keys import (
    ORDERS,
    check_limit,
    check_order,
    no_empty_key,
    status_with_another_key,
)
from ..states import Status
from .index import HotIndex, PartialIndex
from .job import Job


class KeyColumns(models.Model):
    """The columns of concurrency keys, for a queue table and its archive."""

    concurrency_key = NameField(
        null=True, blank=True, help_text=gettext_lazy("Of one key only so many jobs run at once.")
    )
    concurrency_limit = models.PositiveIntegerField(
        null=True, blank=True, help_text=gettext_lazy("Its own limit; empty = that of the policy.")
    )
    key_order = models.CharField(
        max_length=5,
        null=True,
        blank=True,
        choices=[(order, order) for order in ORDERS],
        help_text=gettext_lazy("Its own order; empty = that of the policy."),
    )

    class Meta:
        abstract = True


class KeyedJob(KeyColumns, Job):
    """A queue table whose jobs may have a ``concurrency_key``: at most ``concurrency_limit`` of
    one key, in the whole table, are claimed at once.

    A subclass's ``Meta`` must inherit from ``KeyedJob.Meta``. Jobs without a key cost what they
    cost in other tables.
    """

    takes_keys: ClassVar[bool] = True
    checked_columns: ClassVar[Mapping[str, Callable[[Any], None]]] = MappingProxyType(
        {"concurrency_limit": check_limit, "key_order": check_order}
    )

    class Meta(Job.Meta):
        abstract = True
        indexes = [
            *Job.Meta.indexes,
            HotIndex(
                fields=["status", "concurrency_key", "priority", "id"],
                where={"concurrency_key__isnull": False},
            ),
            PartialIndex(
                fields=["concurrency_key", "status", "priority", "id"],
                where={
                    "status": Status.DELAYED.value,
                    "retry_at__isnull": True,
                    "concurrency_key__isnull": False,
                },
            ),
        ]

    def _do_update(
        self, base_qs: Any, using: Any, pk_val: Any, values: Any, *args: Any, **kwargs: Any
    ) -> Any:
        written = {field.name: value for field, _, value in values}
        key = written.get("concurrency_key", "")
        values = [
            (field, raw, no_empty_key(value) if field.name == "concurrency_key" else value)
            for field, raw, value in values
        ]
        # What comes of an expression only the database knows.
        may_lose_key = key is None or hasattr(key, "resolve_expression")
        if may_lose_key and "status" not in written and not self.holds_claim():
            status = self._meta.get_field("status")
            values = [*values, (status, None, status_with_another_key())]
        return super()._do_update(base_qs, using, pk_val, values, *args, **kwargs)

    @property
    def waits_for_key(self) -> bool:
        """Whether it waits for its key, and for no time."""
        has_key = self.concurrency_key is not None
        return has_key and self.status == Status.DELAYED and self.retry_at is None

    @property
    def state(self) -> str:
        return "waiting for its key" if self.waits_for_key else super().state
