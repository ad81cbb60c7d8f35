"""What the database holds while the demo runs and when it is over."""

from collections.abc import Iterable
from typing import Any

from django.db.models import Count

from django_dbqueue.mail.models import Email
from django_dbqueue.models import Worker
from django_dbqueue.states import Status
from testproject.shop.models import Thumbnail

from . import scenario
from .account import Account
from .post import PostOffice
from .scenario import Placed
from .workers import PROCESSES, THREADS

SETTLED = (Status.DONE, Status.BURIED)


def mails_by_status() -> dict[int, int]:
    return by_status(Email)


def by_status(model: Any) -> dict[int, int]:
    counted = model.objects.order_by().values("status").annotate(rows=Count("pk"))
    return dict(counted.values_list("status", "rows"))


def unsettled(counts: dict[int, int]) -> int:
    return sum(rows for status, rows in counts.items() if status not in SETTLED)


def held_by(prefix: str) -> list[Any]:
    """The mails and thumbnails that are claimed by one worker."""
    return [
        job
        for model in (Email, Thumbnail)
        for job in model.objects.claimed().filter(owner__startswith=prefix).only("pk", *_own(model))
    ]


def _own(model: Any) -> tuple[str, ...]:
    return ("message_id", "recipients") if model is Email else ()


def registered() -> int:
    """Workers that have not signed off, and that nobody has found dead."""
    return Worker.objects.filter(stopped_at=None).count()


def what_hangs() -> Iterable[str]:
    """Every job that is not settled, summed up, the first few by name, and who should work."""
    yield f"{registered()} workers have neither stopped nor been found dead"
    for model in (Email, Thumbnail):
        rows = model.objects.exclude(status__in=SETTLED)
        for job in rows.order_by("pk")[:5]:
            yield (
                f"{job}: {job.state}, owner {job.owner or 'nobody'}, next move "
                f"{job.retry_at or 'when claimed'}, attempts {job.attempts}, "
                f"last error {job.last_error or 'none'}"
            )
        if (count := rows.count()) > 5:
            yield f"... {count} in all of {model._meta.verbose_name_plural}"


def take_account(
    placed: Placed, office: PostOffice, in_hand: Iterable[Any], exit_code: int
) -> Account:
    mails, recipients = Email.objects.all(), office.recipients
    sent = mails.done()
    return Account(
        committed=placed.committed,
        rolled_back=placed.rolled_back,
        to_be_deferred=placed.deferred,
        to_be_refused=placed.by_domain[scenario.GONE],
        thumbnails_wanted=scenario.PHOTOS,
        rows=mails.count(),
        rolled_back_rows=mails.filter(recipients__endswith=scenario.NEVER).count(),
        sent_ids=set(sent.values_list("message_id", flat=True)),
        failed=set(mails.buried().values_list("recipients", flat=True)),
        retried=set(sent.filter(attempts__gt=1).values_list("recipients", flat=True)),
        thumbnails_made=Thumbnail.objects.done().exclude(png=None).count(),
        taken=dict(office.taken),
        taken_from=set(recipients),
        deferred=set(+office.deferred),
        refused=set(office.refused),
        rolled_back_taken=sum(
            n for who, n in recipients.items() if scenario.domain(who) == scenario.NEVER
        ),
        in_hand={job.message_id: job.recipients for job in in_hand if isinstance(job, Email)},
        runner_threads=PROCESSES * THREADS,
        exit_code=exit_code,
        workers_left=registered(),
    )
