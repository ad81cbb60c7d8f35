"""How many jobs wait is noted once a minute: by the counts of all tables together."""

import pytest
from django.db import connection
from django.db.models import QuerySet
from django.db.utils import ProgrammingError
from django.test.utils import CaptureQueriesContext

from django_dbqueue.fields import DbNow
from django_dbqueue.lifecycle.table import table_of
from django_dbqueue.metrics import backlogs
from django_dbqueue.metrics.backlogs import (
    BacklogSampler,
    busy_lately,
    sample_backlogs,
    write_backlog,
)
from django_dbqueue.metrics.counting import OPEN
from django_dbqueue.metrics.recorder import this_minute
from django_dbqueue.models import Minute, QueueCount, TableCount
from django_dbqueue.models.total import OTHERS
from django_dbqueue.states import Status
from django_dbqueue.worker.served import queue_tables
from tests.kit.counting import count_all
from tests.queueapp.models import Batch, Big, Mailed, Note

pytestmark = pytest.mark.usefixtures("db_rows")


def test_the_backlog_is_sampled_once_a_minute_for_idle_queues_too():
    table, minute = table_of(Note, "default"), this_minute("default")
    Minute.objects.create(job_table=table.job_table, queue="idle", minute=minute - 5, completed=1)
    Note.objects.create()
    Note.objects.enqueue(delay=60)
    Note.objects.create(queue="other")
    Note.objects.claim(queue="other")
    count_all(Note)
    sample_backlogs([table])
    Note.objects.create()
    sample_backlogs([table])
    found = dict(
        Minute.objects.filter(minute__gte=minute, backlog__isnull=False).values_list(
            "queue", "backlog"
        )
    )
    if this_minute("default") == minute:
        assert found == {"default": 2, "other": 1, "idle": 0}


def test_of_very_many_queues_the_backlogs_of_a_hundred_are_noted_by_a_few_statements():
    table = table_of(Note, "default")
    Note.objects.bulk_create(Note(queue=f"q{n:03}") for n in range(150))
    Note.objects.bulk_create(Note(queue="q149") for _ in range(5))
    count_all(Note)
    with CaptureQueriesContext(connection) as asked:
        sample_backlogs([table])
    assert len(asked) < 20
    found = dict(Minute.objects.values_list("queue", "backlog"))
    assert len(found) == 100
    assert found["q149"] == 6


def statements_of_a_look(tables):
    sampler = BacklogSampler(tables)
    with CaptureQueriesContext(connection) as asked:
        sampler.write()
    return len(asked)


def test_a_look_at_many_idle_tables_asks_no_more_than_at_one():
    tables = [table_of(model, "default") for model in queue_tables()]
    assert len(tables) > 10
    counts = [TableCount(job_table=one.job_table, part=OPEN, counted_at=DbNow()) for one in tables]
    TableCount.objects.bulk_create(counts)
    assert statements_of_a_look(tables) == statements_of_a_look(tables[:1])
    assert not Minute.objects.exists()


def noted():
    found = Minute.objects.filter(backlog__isnull=False)
    return set(found.values_list("job_table", "queue", "backlog"))


def test_the_backlogs_of_several_tables_are_told_apart():
    """Jobs wait in three of them, one of which nobody counts any more; one had jobs lately."""
    models, was = (Note, Batch, Big, Mailed), this_minute("default") - 5
    Minute.objects.create(job_table="queueapp_mailed", queue="q", minute=was, completed=1)
    for busy in (Note, Batch, Big):
        busy.objects.bulk_create([busy(), busy(), busy(queue="other")])
    QuerySet[Note](Note).bulk_create(Note(status=status) for status in (Status.DONE, Status.BURIED))
    for model in models:
        count_all(model)
    QueueCount.objects.create(job_table="queueapp_note", queue=OTHERS, status=Status.READY, jobs=9)
    TableCount.objects.filter(job_table="queueapp_big").update(counted_at=DbNow(plus=-601))
    sample_backlogs([table_of(model, "default") for model in models])
    assert noted() == {
        ("queueapp_note", "default", 2),
        ("queueapp_note", "other", 1),
        ("queueapp_batch", "default", 2),
        ("queueapp_batch", "other", 1),
        ("queueapp_mailed", "q", 0),
    }


def test_a_table_that_somebody_looked_at_in_this_minute_is_left_and_the_others_are_not():
    for model in (Note, Batch):
        model.objects.create()
        count_all(model)
    minute = this_minute("default")
    write_backlog("default", "queueapp_batch", {"default": 7})
    sample_backlogs([table_of(model, "default") for model in (Note, Batch)])
    if this_minute("default") == minute:
        assert noted() == {("queueapp_note", "default", 1), ("queueapp_batch", "default", 7)}


def test_a_table_whose_backlog_cannot_be_noted_hides_no_other(monkeypatch):
    for model in (Note, Batch):
        model.objects.create()
        count_all(model)

    def write(alias, job_table, by_queue):
        if job_table == "queueapp_batch":
            raise ProgrammingError("somebody altered a column")
        write_backlog(alias, job_table, by_queue)

    monkeypatch.setattr(backlogs, "write_backlog", write)
    sample_backlogs([table_of(model, "default") for model in (Note, Batch)])
    assert noted() == {("queueapp_note", "default", 1)}


def test_a_queue_in_which_nothing_happens_any_more_is_counted_for_an_hour_only():
    table, minute = table_of(Note, "default"), this_minute("default")
    rows = {"done": {"completed": 1}, "failed": {"failed": 1}, "waits": {"backlog": 1}}
    for queue, columns in {**rows, "was": {"backlog": 0}}.items():
        Minute.objects.create(job_table=table.job_table, queue=queue, minute=minute - 5, **columns)
    for ago in (61, 5):
        old = {"completed": int(ago > 60), "backlog": 0}
        Minute.objects.create(job_table=table.job_table, queue="old", minute=minute - ago, **old)
    assert busy_lately("default") == {(table.job_table, queue) for queue in rows}
