"""Where two actors meet: two rows in the same state, written and read by plain SQL."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.apps import apps
from django.db.models import QuerySet

from django_dbqueue.models import Queue
from django_dbqueue.states import Status
from tests.queueapp.models import Kept, Pruned

PKS = {"first": 1_000_001, "second": 1_000_002}
NAMES = {pk: name for name, pk in PKS.items()}
DEDUP = "the key of the first"
HOLDER, THIEF = "w1.7", "w2.3"
TABLES = {"kept": Kept, "pruned": Pruned}

# By home, the columns of a row as the lifecycle leaves it there; instants in hours from now.
HOMES: dict[str, dict[str, Any]] = {
    "ready": {"status": Status.READY},
    "claimed": {"status": Status.CLAIMED, "owner": HOLDER, "retry_at": 1},
    "overdue": {"status": Status.CLAIMED, "owner": HOLDER, "retry_at": -1},
    "stolen": {"status": Status.CLAIMED, "owner": THIEF, "retry_at": 1},
    "delayed": {"status": Status.DELAYED, "retry_at": -1},
    "buried": {"status": Status.BURIED, "finished_at": -1},
    "finished": {"status": Status.DONE, "owner": HOLDER, "retry_at": -1, "finished_at": -30},
    "archived": {"status": Status.DONE, "owner": HOLDER, "retry_at": -1, "finished_at": -30},
}
INSTANTS = {"retry_at", "finished_at"}
READ = (
    "pk",
    "status",
    "owner",
    "attempts",
    "crashes",
    "losses",
    "priority",
    "dedup_key",
    "retry_at",
    "dequeued_time",
    "finished_at",
    "errors",
)


class World:
    """Two rows of one queue table in one home, and what is to be seen of them afterwards."""

    def __init__(self, model, home, names):
        self.model, self.home = model, home
        # Those that an actor means when it means certain jobs.
        self.keys = [PKS[name] for name in names]
        archive = model.policy().archive
        self.archive = apps.get_model(archive) if archive else None

    def jobs(self, names):
        return [self._job(self.model, PKS[name], self._columns(name)) for name in names]

    def held(self):
        """The instances that the holder of the claim has, whatever became of the rows."""
        jobs = [self._job(self.model, key, self._columns(NAMES[key])) for key in self.keys]
        for job in jobs:
            job._state.adding, job._state.db = False, "default"
            job.claim_owner, job.claim_key = HOLDER, job.pk
        return jobs

    def set_up(self):
        for model in filter(None, (self.model, self.archive)):
            QuerySet(model)._raw_delete("default")
        where = self.archive if self.home == "archived" else self.model
        rows = [self._job(where, pk, self._columns(name)) for name, pk in PKS.items()]
        QuerySet(where).bulk_create(rows)

    def read(self):
        """By name, where each row is and what it looks like."""
        seen = {}
        places = {"live": self.model, "archived": self.archive}
        for place, model in places.items():
            for row in QuerySet(model).order_by("pk").values(*READ) if model else ():
                name = NAMES.get(row.pop("pk"), f"new {len(seen)}")
                assert name not in seen, f"{name} is in both tables"
                seen[name] = (place, *_look(row).values())
                if place == "live":
                    check_row(row)
        return seen

    def have_moved(self, rows):
        """Whether all jobs that are meant are in another state than at first, or elsewhere."""
        first = ("live", HOMES[self.home]["status"], HOMES[self.home].get("owner"))
        return not any(rows.get(NAMES[key], ())[:3] == first for key in self.keys)

    def _columns(self, name):
        now = datetime.now(UTC)
        columns = dict(HOMES[self.home])
        for column in INSTANTS & columns.keys():
            columns[column] = now + timedelta(hours=columns[column])
        if columns.get("owner"):
            columns["dequeued_time"] = now - timedelta(hours=2)
        if name == "first" and self._has_key(columns["status"]):
            columns["dedup_key"] = DEDUP
        started = columns["status"] in {Status.CLAIMED, Status.DONE, Status.BURIED}
        return columns | {"attempts": int(started), "priority": 1024}

    def _has_key(self, status):
        waits = {Status.READY, Status.DELAYED}
        if self.model.policy().dedup_until == "done":
            waits.add(Status.CLAIMED)
        return status in waits

    def _job(self, model, pk, columns):
        return model(id=pk, **columns)


def empty_controls():
    Queue.objects.all().delete()


def _look(row):
    """A row without what is different in every run."""
    now = datetime.now(UTC)
    due = row["retry_at"]
    return row | {
        "retry_at": due and ("past" if due <= now else "to come"),
        "dequeued_time": row["dequeued_time"] is not None,
        "finished_at": row["finished_at"] is not None,
        "errors": tuple(entry["exception"] for entry in row["errors"]),
    }


def check_row(row):
    """No row of the queue table may look otherwise, whatever happened to it."""
    status = row["status"]
    is_claimed, is_over = status == Status.CLAIMED, status in {Status.DONE, Status.BURIED}
    assert is_claimed <= (None not in (row["owner"], row["dequeued_time"], row["retry_at"])), row
    if status != Status.DONE:
        assert (row["owner"] is not None) == (row["dequeued_time"] is not None) == is_claimed, row
    assert (row["finished_at"] is not None) == is_over, row
    if is_over:
        assert row["dedup_key"] is None, row
    if status in {Status.READY, Status.BURIED}:
        assert row["retry_at"] is None, row
    if status == Status.DELAYED:
        assert row["retry_at"] is not None, row
