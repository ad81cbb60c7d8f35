"""Bulk actions: a verb on all jobs of a table that were chosen, one row each."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, ClassVar

from django.db import models, router

from ..fields import InstantField
from ..models import Job
from ..models.enqueued import Enqueued
from ..models.job import PERMISSIONS
from . import verbs
from .chosen import Chosen
from .running import Run

KEPT_SECONDS = 30 * 86400


@dataclass(frozen=True)
class Asker:
    """Who wants it done: a user's key, and what they are called."""

    key: str
    name: str


class BulkAction(Job):
    """``verb``, with its ``values``, on the jobs of ``target`` on ``database`` that are meant by
    ``choice``, as they were at ``shown_at`` by that database's clock.

    The other columns say how far it is. Whoever may write a row here has the verb done: so nobody
    has the permission to add one by hand, and who asks for one needs that of the action.
    """

    verb = models.CharField(max_length=50, editable=False)
    values: Any = models.JSONField(default=dict, editable=False)
    target = models.CharField(max_length=200, editable=False)
    database = models.CharField(max_length=100, default="default", editable=False)
    choice: Any = models.JSONField(default=dict, editable=False)
    shown_at = InstantField(editable=False)
    asked_by = models.CharField(max_length=64, blank=True, editable=False)
    asked_by_name = models.CharField(max_length=200, blank=True, editable=False)
    # Null until they are counted, when it begins.
    total = models.BigIntegerField(null=True, editable=False)
    seen = models.BigIntegerField(default=0, editable=False)
    counts: Any = models.JSONField(default=dict, editable=False)
    # Where it goes on, the first of what it has changed, and its entry in the admin's log.
    place: Any = models.JSONField(default=dict, editable=False)
    first_keys: Any = models.JSONField(default=list, editable=False)
    log_entry = models.CharField(max_length=64, blank=True, editable=False)

    class Meta(Job.Meta):
        default_permissions: ClassVar[Any] = tuple(name for name in PERMISSIONS if name != "add")

    class Policy:
        max_attempts = 20  # it goes on where it was, so that each is progress
        finish = "each"
        dedup_until = "done"
        prune_after = KEPT_SECONDS

    def __str__(self) -> str:
        return f"bulk action {self.pk}"  # as logs have it, whatever language is active

    @classmethod
    def ask(
        cls,
        verb: str,
        model: type[models.Model],
        alias: str,
        chosen: Chosen,
        shown_at: datetime,
        asker: Asker,
        values: Mapping[str, Any],
    ) -> Enqueued[Any]:
        """Enqueue it; the one that waits or runs, where the same was asked for twice.
        ``UnknownVerb`` where no installed app has it."""
        given = verbs.stored(values)
        verbs.verb_of(verb, given)
        columns: dict[str, Any] = {
            "verb": verb,
            "values": given,
            "target": model._meta.label_lower,
            "database": alias,
            "choice": chosen.stored(),
            "asked_by": asker.key,
        }
        text = json.dumps([columns, shown_at.isoformat()], sort_keys=True)
        key = sha256(text.encode()).hexdigest()
        rows: Any = cls._default_manager.db_manager(router.db_for_write(cls))
        columns |= {"shown_at": shown_at, "asked_by_name": asker.name[:200]}
        found: Enqueued[Any] = rows.enqueue(dedup_key=key, **columns)
        return found

    def run(self) -> None:
        """Go on from where it was, batch by batch."""
        Run(self).go()
