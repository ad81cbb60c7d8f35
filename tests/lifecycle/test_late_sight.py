"""A node of a cluster that has not seen a claim yet: before it is lost or gone, all is waited for.

The cluster is played: a statement finds nothing until somebody has waited (``tests/cluster`` has a
real one).
"""

from contextlib import contextmanager

import pytest
from django.db import connection, connections

from django_dbqueue.dialects import dialect_of
from django_dbqueue.lifecycle import holder, reap
from django_dbqueue.models import Worker
from django_dbqueue.states import Status
from django_dbqueue.worker.heartbeat import Heartbeat
from django_dbqueue.worker.reaper import Reaper
from tests.kit.jobs import claimed, fresh, overwrite, table
from tests.queueapp.models import Effect, Note, Transfer

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.each_database]


class LateNode:
    """Shows nothing of a table until it was waited for."""

    def __init__(self, model):
        self.table = connection.ops.quote_name(model._meta.db_table)
        self.is_late = True
        self.waits = 0

    def __call__(self, execute, sql, params, many, context):
        is_meant = self.table in sql and sql.startswith(("UPDATE", "SELECT")) and "WHERE" in sql
        if self.is_late and is_meant:
            sql = sql.replace("WHERE", "WHERE 1 = 0 AND", 1)
        return execute(sql, params, many, context)

    def catch_up(self):
        if connection.in_atomic_block:
            return False
        self.waits += 1
        self.is_late = False
        return True


@contextmanager
def late(monkeypatch, model=Note):
    node = LateNode(model)
    monkeypatch.setattr(dialect_of(connections["default"]), "catch_up", node.catch_up)
    with connection.execute_wrapper(node):
        yield node
    assert node.waits


VERBS = {
    "complete": lambda job: job.complete(),
    "release": lambda job: job.release(),
    "touch": lambda job: job.touch(),
    "fail": lambda job: job.fail("no"),
    "bury": lambda job: job.bury("no"),
    "move": lambda job: holder.move(table(), job.claim_owner, [job.claim_key], "elsewhere"),
    "expire": lambda job: holder.expire(table(), job),
}


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_the_holder_of_a_claim_ends_it(monkeypatch, verb):
    job = claimed()
    with late(monkeypatch):
        verb(job)
    assert (fresh(job).status == Status.CLAIMED) == (verb is VERBS["touch"])


def test_a_failure_is_added_to_those_before_it(monkeypatch):
    job = claimed()
    overwrite(job, errors=[{"message": "earlier"}])
    with late(monkeypatch):
        job.fail("later")
    assert [one["message"] for one in fresh(job).errors] == ["earlier", "later"]


def test_of_a_batch_that_is_half_seen_all_are_counted(monkeypatch):
    jobs = [claimed(text=str(number)) for number in range(3)]
    for job in jobs:
        overwrite(job, owner="me")
    keys = [job.pk for job in jobs]
    hidden = f"{table().pk} <> {keys[0]} AND"

    def half(execute, sql, params, many, context):
        if is_late and sql.startswith("UPDATE"):
            sql = sql.replace("WHERE", f"WHERE {hidden}", 1)
        return execute(sql, params, many, context)

    def catch_up():
        is_late.clear()
        return True

    monkeypatch.setattr(dialect_of(connections["default"]), "catch_up", catch_up)
    for verb in (holder.touch, holder.complete):
        is_late = [True]
        with connection.execute_wrapper(half):
            assert sorted(verb(table(), "me", keys).written) == keys


def test_of_a_batch_that_is_touched_the_lost_one_is_known(monkeypatch):
    jobs = [claimed(text=str(number)) for number in range(3)]
    for job in jobs[1:]:
        overwrite(job, owner=jobs[0].claim_owner)
    overwrite(jobs[2], owner="another")
    hidden, keys = [f"{table().pk} <> {jobs[0].pk} AND"], [job.pk for job in jobs]

    def half(execute, sql, params, many, context):
        if hidden and sql.startswith("UPDATE"):
            sql = sql.replace("WHERE", f"WHERE {hidden[0]}", 1)
        return execute(sql, params, many, context)

    dialect = dialect_of(connections["default"])
    monkeypatch.setattr(dialect, "catch_up", lambda: bool(hidden.pop()))
    with connection.execute_wrapper(half):
        written = holder.touch(table(), jobs[0].claim_owner, keys)
    assert (sorted(written.written), written.lost) == (keys[:2], keys[2:])


def test_what_another_has_by_now_stays_lost(monkeypatch):
    job = claimed()
    overwrite(job, owner="another")
    with late(monkeypatch):
        written = holder.complete(table(), job.claim_owner, [job.pk])
    assert (written.lost, fresh(job).owner) == ([job.pk], "another")


def test_what_a_claim_took_without_an_answer_is_given_back(monkeypatch):
    job = claimed()
    with late(monkeypatch):
        assert len(reap.give_back(table(), job.claim_owner)) == 1


def test_what_is_claimed_and_in_nobodys_hand_is_given_back(monkeypatch):
    job = claimed()
    prefix = job.claim_owner.partition(".")[0]
    with late(monkeypatch):
        assert reap.give_back_unknown(table(), prefix, set())[0] == 1


def test_what_a_gone_worker_held_is_given_back(monkeypatch):
    job = claimed()
    with late(monkeypatch):
        assert len(reap.reap_owner(table(), job.claim_owner)) == 1


def test_a_living_worker_is_not_taken_for_dead_by_its_own_node(monkeypatch, caplog):
    heartbeat = Heartbeat("a" * 32, "default", [], 1, 10)
    assert heartbeat.beat({})
    with late(monkeypatch, Worker):
        assert heartbeat.beat({})
    assert (heartbeat.last.epoch, caplog.messages) == (1, [])


def test_a_worker_whose_beat_is_not_seen_yet_is_not_reaped(monkeypatch):
    Worker.objects.create(uuid="a" * 32, host="h", pid=1)
    job = claimed()
    overwrite(job, owner=f"{'a' * 32}.1")
    dialect = dialect_of(connections["default"])
    looks = [["a" * 32], []]
    monkeypatch.setattr(dialect, "catch_up", lambda: True)
    reaper = Reaper([table()], 10, lambda *_: None, silent=lambda _: looks.pop(0))
    reaper.turn(lambda: True)
    assert Worker.objects.get().stopped_at is None
    assert fresh(job).status == Status.CLAIMED
    assert not looks


def test_effects_of_a_claim_that_is_not_seen_yet_happen_once(monkeypatch):
    job = claimed(Transfer)
    with late(monkeypatch, Transfer):
        job.run_exactly_once()
    assert (fresh(job).status, Effect.objects.count()) == (Status.DONE, 1)


def test_where_there_is_no_cluster_nothing_more_is_asked():
    seen = []

    def note(execute, sql, params, many, context):
        seen.append(sql.split()[0])
        return execute(sql, params, many, context)

    jobs = [claimed(text=str(number)) for number in range(4)]
    with connection.execute_wrapper(note):
        for job in jobs[:2]:
            job.complete()
        assert seen == ["UPDATE"] * 2
        for job in jobs[2:]:
            overwrite(job, owner="another")
        del seen[:]
        for job in jobs[2:]:
            holder.complete(table(), job.claim_owner, [job.pk])
    lost = ["UPDATE", "SELECT"]
    asked = ["UPDATE", "SHOW", "SELECT"] if connection.vendor == "mysql" else lost
    assert seen in ([*asked, *lost], lost * 2)  # once a connection
