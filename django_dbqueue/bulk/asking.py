"""How the admin asks for a bulk action: its button carries what the list was asked for, signed."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.core import signing
from django.db import router
from django.db.models import Model, QuerySet

from ..admin.as_job import NoLongerOffered, Offer
from ..monitor.worker_list import list_workers
from ..operate.by_row import ROW_VERBS
from .chosen import Chosen
from .models import Asker, BulkAction
from .verbs import JOB_VERBS

SALT = "django_dbqueue.bulk"


class AsBulkAction:
    """For ``admin.as_job.AS_JOB``."""

    def offer(self, verb: str, rows: QuerySet[Any]) -> Offer | None:
        chosen = Chosen.in_list(rows)
        if chosen is None or verb not in {*JOB_VERBS, *ROW_VERBS}:
            return None
        said = {
            "verb": verb,
            "table": rows.model._meta.label_lower,
            # Not where they are read, which may be a replica.
            "database": rows._db or router.db_for_write(rows.model),  # type: ignore[attr-defined]
            "choice": chosen.stored(),
        }
        return Offer(signing.dumps(said, salt=SALT), is_served())

    def enqueue(
        self,
        token: str,
        user: Any,
        verb: str,
        model: type[Model],
        until: datetime,
        values: Mapping[str, Any],
    ) -> BulkAction:
        try:
            said = signing.loads(token, salt=SALT)
        except signing.BadSignature as error:
            raise NoLongerOffered(token) from error
        # The permission that was asked for is that of this verb and this table.
        if (said["verb"], said["table"]) != (verb, model._meta.label_lower):
            raise NoLongerOffered(token)
        chosen = Chosen.read(said["choice"])
        asker = Asker(str(user.pk), user.get_username())
        job, _ = BulkAction.ask(verb, model, said["database"], chosen, until, asker, values)
        row: BulkAction | None = job
        if row is None:
            raise NoLongerOffered(token)  # it was asked for twice, and has just ended
        return row


def is_served() -> bool:
    """Whether a living worker serves the queue of bulk actions."""
    label, queue = BulkAction._meta.label_lower, BulkAction().queue
    aliases = BulkAction.written_databases()
    return any(
        one.lives and one.takes(label, queue) for alias in aliases for one in list_workers(alias)
    )
