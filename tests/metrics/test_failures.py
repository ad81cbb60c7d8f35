"""What failed, added up by kind in the batches that write the minutes."""

import pytest
from django.db import connection
from django.db.models import Sum
from django.db.utils import Error
from django.test.utils import CaptureQueriesContext

from django_dbqueue.lifecycle.claim_end import RetryDecision
from django_dbqueue.lifecycle.failures import Failure
from django_dbqueue.lifecycle.table import table_of
from django_dbqueue.metrics import failures, recorder
from django_dbqueue.metrics.failures import start_of
from django_dbqueue.metrics.recorder import Recorder, add, this_minute
from django_dbqueue.metrics.roll_up import prune
from django_dbqueue.models import FailureCount, FailureKind, Minute
from django_dbqueue.models.failure import COUNTS_MAX, KINDS_MAX, OTHER
from django_dbqueue.models.minute import KEPT
from django_dbqueue.states import Status
from django_dbqueue.testing import virtual_clock
from tests.kit.failures import failed
from tests.kit.inline_worker import drain
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")
NOTE = Note._meta.db_table


@pytest.fixture(autouse=True)
def nothing_from_before():
    """Other tests run jobs in this process, too."""
    recorder._forget()


def kinds(first, count):
    return {Failure(f"{n:012x}", "OSError", "", f"no {n}"): 1 for n in range(first, first + count)}


def added_up(*names):
    rows = FailureCount.objects.filter(job_table=NOTE).order_by(*names)
    return [(*row[:-1], int(row[-1])) for row in rows.values_list(*names).annotate(n=Sum("failed"))]


def failed_in_minutes():
    found = Minute.objects.filter(job_table=NOTE).aggregate(n=Sum("failed"))["n"]
    return int(found or 0)


def test_what_failed_in_a_worker_is_added_up_by_queue_and_kind():
    for _ in range(2):
        Note.objects.create(action="fail", text="7")
    Note.objects.create(action="fail", text="8", queue="other")
    Note.objects.create(action="silence")
    Note.objects.create()
    with virtual_clock() as clock:
        drain(clock, "queueapp.note")
    words = dict(FailureKind.objects.values_list("fingerprint", "words"))
    found = sorted((words[name], queue, n) for name, queue, n in added_up("fingerprint", "queue"))
    assert [(queue, n) for text, queue, n in found if text == "note # does not work"] == [
        ("default", 6),
        ("other", 3),
    ]
    assert len(words) == 2
    assert sum(n for _, _, n in found) == failed_in_minutes() == 12
    one = FailureKind.objects.get(words="note # does not work")
    assert (one.exception, one.place) == (
        "builtins.RuntimeError",
        "tests.queueapp.models.Note.do_fail",
    )
    assert abs(one.last_seen - this_minute("default")) < 2


def test_jobs_that_do_well_cost_no_statement_more():
    with CaptureQueriesContext(connection) as found:
        add(("default", NOTE, "default"), {"completed": 1})
    assert [one["sql"] for one in found if "dbqueue_failure" in one["sql"]] == []


def test_the_rows_of_five_minutes_are_bounded_and_all_is_counted():
    for queue in ("a", "b", "c"):
        for start in range(0, COUNTS_MAX, 50):
            add(("default", NOTE, queue), {"failed": 50}, kinds(start, 50))
    fives = FailureCount.objects.values("minute").distinct().count()  # two, if some ended meanwhile
    assert FailureCount.objects.count() <= fives * (COUNTS_MAX + 1)
    assert sum(n for _, n in added_up("queue")) == failed_in_minutes() == 300
    assert 300 - fives * COUNTS_MAX <= dict(added_up("fingerprint"))[OTHER] <= 200


def test_the_kinds_of_a_table_are_bounded_and_old_ones_make_room():
    minute = this_minute("default")
    for start in range(0, KINDS_MAX + 50, 50):
        FailureCount.objects.all().delete()
        add(("default", NOTE, "default"), {"failed": 50}, kinds(start, 50))
    assert FailureKind.objects.count() == KINDS_MAX
    assert dict(added_up("fingerprint")) == {OTHER: 50}
    FailureKind.objects.filter(words="no 7").update(last_seen=minute - 2000)
    add(("default", NOTE, "default"), {"failed": 1}, kinds(1000, 1))
    assert FailureKind.objects.filter(words="no 1000").exists()
    assert not FailureKind.objects.filter(words="no 7").exists()


def test_what_cannot_be_written_is_kept_with_its_kinds():
    table, ours = table_of(Note, "default"), Recorder()
    [failure] = kinds(1, 1)
    decision = RetryDecision(Status.BURIED, 0, "buried").after(failure)
    good, recorder.add = recorder.add, refuse
    try:
        ours.failed(table, "default", None, decision)
        ours.write()
        ours.failed(table, "default", None, RetryDecision(Status.READY, 0, "again"))
    finally:
        recorder.add = good
    ours.write()
    ours.write()
    assert added_up("fingerprint") == [(OTHER, 1), (failure.fingerprint, 1)]
    assert failed_in_minutes() == 2


def refuse(key, columns, kinds=recorder.NO_KINDS):
    raise Error("no")


def test_a_process_tells_a_bounded_number_apart():
    table, ours = table_of(Note, "default"), Recorder()
    for failure in kinds(0, 2000):
        ours.failed(table, "default", 0.1, RetryDecision(Status.READY, 0, "").after(failure))
    ours.write()
    assert len(added_up("fingerprint")) <= recorder.KINDS_MAX + 1
    assert sum(n for _, n in added_up("fingerprint")) == 2000


def test_a_kind_of_which_there_are_jobs_is_pruned_last(monkeypatch):
    minute = this_minute("default")
    job = failed()
    FailureKind.objects.all().delete()
    seen = {"exception": "E", "first_seen": minute - 2 * KEPT, "last_seen": minute - 2 * KEPT}
    for name, table in {job.failure: NOTE, "none": NOTE, "gone": "of_no_model"}.items():
        FailureKind.objects.create(job_table=table, fingerprint=name, **seen)
    assert prune("default") == 2
    assert FailureKind.objects.get().fingerprint == job.failure
    # Where there is no room it makes way: what fails now has to be told apart.
    monkeypatch.setattr(failures, "KINDS_MAX", 2)
    FailureKind.objects.create(job_table=NOTE, fingerprint="none", **seen)
    for number, kept in enumerate([{job.failure}, set()]):
        add(("default", NOTE, "default"), {"failed": 1}, kinds(number, 1))
        names = set(FailureKind.objects.values_list("fingerprint", flat=True))
        assert names == kept | {f"{n:012x}" for n in range(number + 1)}


def test_old_ones_are_pruned_as_minutes_are():
    minute = start_of(this_minute("default"))
    for ago in (0, KEPT - 5, KEPT + 5, KEPT + 1000):
        FailureCount.objects.create(
            job_table=NOTE, queue="q", fingerprint="a", minute=minute - ago, failed=1
        )
    for name, ago in {"a": 0, "b": KEPT + 5}.items():
        seen = {"first_seen": minute - ago, "last_seen": minute - ago}
        FailureKind.objects.create(job_table=NOTE, fingerprint=name, exception="E", **seen)
    assert prune("default") == 3
    assert prune("default") == 0
    assert FailureCount.objects.count() == 2
    assert FailureKind.objects.get().fingerprint == "a"
