"""The rows that a scenario begins with, and the passing of time."""

from django.db import transaction
from django.db.models import QuerySet

from django_dbqueue.fields import DbNow
from django_dbqueue.models import Queue, Worker
from django_dbqueue.states import Status
from tests.queueapp.models import ArchivedChore, Chore, Errand

DEAD = "d" * 32  # a worker that has not beaten for long
FINISHED = {"finished_at": DbNow(plus=-60), "retry_at": DbNow(plus=3000), "attempts": 1}

# name -> columns; nothing = ready.
MAINTENANCE = {
    "plain-1": {},
    "plain-2": {},
    "plain-3": {"priority": 7},
    "fails": {"action": "fail"},
    "buries": {"action": "bury", "dedup_key": "buries"},
    "touches": {"action": "touch"},
    "releases": {"action": "release"},
    "completes": {"action": "complete", "dedup_key": "completes"},
    "saves": {"action": "save"},
    "late": {},
    "expired": {"expires_at": DbNow(plus=-5)},
    "delayed": {"status": Status.DELAYED, "retry_at": DbNow(plus=-5)},
    "buried": {"status": Status.BURIED, "finished_at": DbNow(plus=-60)},
    "quiet": {"queue": "quiet"},
    "cancelled": {},
    "old": {"status": Status.DONE, "owner": "o.1"} | FINISHED | {"retry_at": DbNow(plus=-5)},
    "orphan-1": {"owner": f"{DEAD}.1"},
    "orphan-2": {"owner": f"{DEAD}.2"},
    "overdue": {"owner": "gone.1", "retry_at": DbNow(plus=-5)},
    "stolen": {"owner": "new.1"},
    "finished": {"status": Status.DONE, "owner": "same.1"} | FINISHED,
    "pair-1": {"owner": "pair.1"},
    "pair-2": {"owner": "other.1"},
    "slow-1": {"owner": "slow.1", "retry_at": DbNow(plus=-5)},
    "slow-2": {"owner": "slow.2", "retry_at": DbNow(plus=-5)},
}
ERRANDS = {"errand-1": {"dedup_key": "errand-1"}, "errand-2": {}, "errand-3": {"owner": "new.2"}}
# Those whose claim no worker's row stands for: only time ends it.
LOOPS = ("stolen", "pair-1", "pair-2", "slow-1", "slow-2", "overdue", "errand-3")
CLAIMED = {"status": Status.CLAIMED, "attempts": 1, "dequeued_time": DbNow(plus=-5)}


@transaction.atomic
def prepare(log):
    """Every row as it is before the scenario."""
    for model in (Chore, Errand, ArchivedChore, Worker, Queue):
        model._base_manager.all()._raw_delete("default")
    _insert(Chore, MAINTENANCE, log)
    _insert(Errand, ERRANDS, log)
    ArchivedChore.objects.create(
        id=2**60,  # no chore's
        name="ancient",
        status=Status.DONE,
        owner="o.2",
        created_at=DbNow(),
        **FINISHED | {"finished_at": DbNow(plus=-9000)},
    )
    serves = [Chore._meta.label_lower]
    Worker.objects.create(
        uuid=DEAD, host="elsewhere", pid=1, beat_at=DbNow(plus=-100), serves=serves
    )


def _insert(model, table, log):
    """Past the lifecycle, which would begin every job at its beginning."""
    QuerySet(model).bulk_create(
        [model(name=name, log=log, **_columns(given)) for name, given in table.items()]
    )


def _columns(given):
    if "owner" in given and "status" not in given:
        return CLAIMED | {"retry_at": DbNow(plus=60)} | given
    return given


def change(name, **columns):
    """Write what only the lifecycle may write: another process has done it."""
    assert QuerySet(Chore).filter(name=name).update(**columns) == 1


def let_time_pass():
    """Enough for delayed jobs to be due."""
    for model in (Chore, Errand):
        delayed = QuerySet(model).filter(status=Status.DELAYED)
        delayed.update(retry_at=DbNow(plus=-1))


def let_workers_look_dead():
    """Enough for the dead to be missed, and for the claims of loops to end."""
    Worker.objects.filter(stopped_at=None).update(beat_at=DbNow(plus=-100))
    for model in (Chore, Errand):
        claimed = QuerySet(model).filter(status=Status.CLAIMED, name__in=LOOPS)
        claimed.update(retry_at=DbNow(plus=-1))
