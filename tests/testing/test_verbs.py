"""Jobs run by a test, within the transaction of a TestCase and without one."""

import pytest
from django.core import mail
from django.core.exceptions import ImproperlyConfigured
from django.db import IntegrityError, connection, transaction

from django_dbqueue.mail.models import Email
from django_dbqueue.testing import virtual_clock
from tests.kit.jobs import fresh
from tests.kit.processes import lines
from tests.queueapp.called import Called, call, effects, write
from tests.queueapp.models import Answering, Batch, Effect, Gathered, Note, Transfer

pytestmark = pytest.mark.one_database


def test_what_is_ready_runs_and_what_it_enqueues(jobs):
    job = Note.objects.create(action="enqueue")
    assert jobs.run_all() == 2
    assert fresh(job).state == "done"
    assert Note.objects.done().count() == 2
    assert jobs.run_all() == 0


def test_only_what_is_named_runs(jobs):
    for queue in ("red", "blue"):
        Note.objects.create(queue=queue)
    Batch.objects.create()
    assert jobs.run_all("queueapp.Note:red") == 1
    assert jobs.run_all(Note) == 1
    assert Batch.objects.ready().count() == 1


def test_retries_wait_until_all_is_to_settle(jobs):
    job = Note.objects.create(action="fail")
    later = Note.objects.enqueue(delay=86_400).job
    assert jobs.run_all(Note) == 1
    assert (len(fresh(job).errors), fresh(later).state) == (1, "delayed")
    assert jobs.run_until_settled(Note) == 3
    assert (fresh(job).state, len(fresh(job).errors)) == ("buried", 3)
    assert fresh(later).state == "done"


def test_settling_moves_the_clock_that_the_test_has_set(jobs):
    with virtual_clock() as clock:
        began = clock.now
        Note.objects.enqueue(delay=3600)
        assert jobs.run_until_settled(Note) == 1
        assert round((clock.now - began).total_seconds()) == 3600


def test_effects_happen_once_with_their_jobs_end_or_not_at_all(jobs):
    good, bad = Transfer.objects.create(), Transfer.objects.create(action="fail")
    assert jobs.run_until_settled(Transfer) == 4
    assert (fresh(good).state, fresh(bad).state) == ("done", "buried")
    assert effects() == [good.pk]


def test_batches_run_together(jobs, log):
    Batch.objects.bulk_create([Batch(log=log) for _ in range(3)])
    assert jobs.run_all(Batch) == 3
    assert lines(log) == ["3 jobs"]


def test_results_are_in_their_columns(jobs):
    job = Answering.objects.create(action="return")
    jobs.run_all(Answering)
    assert fresh(job).answer["said"][0] == "return"


def test_a_transaction_of_a_job_is_kept_or_undone_alone(jobs):
    def in_parts():
        write(1)
        with transaction.atomic(durable=True):
            write(2)
            with transaction.atomic():
                write(3)
                transaction.set_rollback(True)
        with transaction.atomic():
            write(4)
            raise RuntimeError("in the middle")

    job = call(in_parts)
    jobs.run_all(Called)
    assert effects() == [1, 2]
    assert fresh(job).last_error == "RuntimeError: in the middle"


def test_what_a_job_asks_for_on_its_commit_is_called_when_it_commits(jobs):
    heard = []

    def commit_or_not():
        transaction.on_commit(lambda: heard.append("at once"))
        with transaction.atomic():
            transaction.on_commit(lambda: heard.append("at the commit"))
            heard.append("before")
        with transaction.atomic():
            transaction.on_commit(lambda: heard.append("never"))
            transaction.set_rollback(True)

    call(commit_or_not)
    jobs.run_all(Called)
    assert heard == ["at once", "before", "at the commit"]


def test_an_error_of_the_database_ends_a_job_and_nothing_else(jobs):
    def twice(caught):
        write(1)
        try:
            write(1)
        except IntegrityError:
            if not caught:
                raise
        write(2)

    good, bad = call(twice, caught=True), Note.objects.create()
    assert jobs.run_all(Called, Note) == 2
    assert (fresh(good).state, effects()) == ("done", [1, 2])
    bad = call(twice, caught=False)
    assert jobs.run_all(Called) == 1
    assert "IntegrityError" in fresh(bad).last_error
    with transaction.atomic():
        write(5)
    assert effects() == [1, 2, 5]


def test_a_job_may_manage_its_transactions_by_hand(jobs):
    def by_hand():
        connection.set_autocommit(False)
        write(1)
        connection.commit()
        write(2)
        connection.rollback()
        with transaction.atomic():
            write(3)
        connection.commit()
        connection.set_autocommit(True)
        write(4)

    job = call(by_hand)
    jobs.run_all(Called)
    assert (fresh(job).state, effects()) == ("done", [1, 3, 4])


def test_a_broken_transaction_of_a_job_fails_it_alone(jobs):
    def go_on():
        with transaction.atomic():
            write(1)
            try:
                with transaction.atomic(savepoint=False):
                    write(1)
            except IntegrityError:
                write(2)

    job = call(go_on)
    jobs.run_all(Called)
    assert "TransactionManagementError" in fresh(job).last_error
    assert effects() == []


def test_coroutines_use_the_tests_own_connection(jobs, log):
    async def acreate():
        await Effect.objects.acreate(job=1)

    call(acreate)
    Gathered.objects.create(log=log)
    assert jobs.run_all(Called, Gathered) == 2
    assert effects() == [1]


def test_a_job_may_lock_rows_only_where_it_may_in_production(jobs):
    if not connection.features.has_select_for_update:
        pytest.skip("it locks no rows")

    def lock():
        list(Effect.objects.select_for_update())

    job = call(lock)
    jobs.run_all(Called)
    assert "select_for_update cannot be used outside of a transaction" in fresh(job).last_error


def test_a_connection_that_a_job_closes_is_there_again(jobs):
    def close():
        write(1)
        connection.close()
        write(2)

    job = call(close)
    jobs.run_all(Called)
    assert (fresh(job).state, effects()) == ("done", [1, 2])


def test_what_a_job_leaves_uncommitted_without_atomic_is_lost(jobs):
    def leave_open():
        connection.set_autocommit(False)
        write(1)

    job = call(leave_open)
    jobs.run_all(Called)
    assert (fresh(job).state, effects()) == ("done", [])


def test_inside_a_block_of_its_own_a_test_runs_nothing(jobs):
    Note.objects.create()
    with (
        pytest.raises(ImproperlyConfigured, match="before its commit: leave the block"),
        transaction.atomic(),
    ):
        jobs.run_all(Note)
    assert jobs.run_all(Note) == 1


def test_mail_is_delivered_into_djangos_outbox(jobs, queueing, mailoutbox):
    mail.send_mail("Your mug", "It is ready.", None, ["anna@example.org"])
    assert len(mailoutbox) == 0
    jobs.assert_enqueued(Email, subject="Your mug")
    assert jobs.run_all(Email) == 1
    assert [message.subject for message in mailoutbox] == ["Your mug"]
