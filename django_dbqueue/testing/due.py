"""When the next delayed job is due that a worker serves."""

from django.db.models import FloatField
from django.db.models.expressions import RawSQL

from ..lifecycle import promotion
from ..states import Status
from ..worker.options import Options
from ..worker.served import RUNNABLE, Served


def next_due(options: Options, served: Served) -> float | None:
    """Seconds until it is; None where there is none. Those of other queues of its table are
    promoted as well, but nobody waits for them."""
    table = options.table(served.model, served.using)
    if not (served.wanted or served.left_out or served.label in RUNNABLE):
        return promotion.next_moves(table)[0]
    delayed = table.model._base_manager.using(served.using).filter(status=Status.DELAYED)
    timed = delayed.filter(retry_at__isnull=False).order_by("retry_at")
    left = RawSQL(table.dialect.seconds_until("retry_at"), (), FloatField())  # noqa: S611  # ours
    for queue, seconds in timed.annotate(dbqueue_seconds=left).values_list(
        "queue", "dbqueue_seconds"
    ):
        if served.takes(queue):
            return float(seconds or 0)
    return None
