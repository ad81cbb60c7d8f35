"""What is so within the transaction of a TestCase alone."""

from contextlib import closing

import pytest
from django.db import connection, transaction
from django.db.transaction import TransactionManagementError

from django_dbqueue.exceptions import QueueFull
from django_dbqueue.models import Worker
from django_dbqueue.testing import hidden_transaction
from django_dbqueue.testing.verbs import Jobs
from tests.kit.bounds import limits
from tests.kit.connections import other_connection
from tests.kit.jobs import fresh
from tests.queueapp.called import Called, call, effects, write
from tests.queueapp.models import Note

pytestmark = pytest.mark.each_database


def test_what_the_test_has_asked_for_on_its_commit_still_waits(
    jobs_in_testcase, django_capture_on_commit_callbacks
):
    Note.objects.create()
    with django_capture_on_commit_callbacks() as callbacks:
        transaction.on_commit(lambda: 7)
        jobs_in_testcase.run_all(Note)
    assert [callback() for callback in callbacks] == [7]


def test_a_job_that_turns_autocommit_on_again_keeps_what_it_wrote(jobs_in_testcase):
    def switch():
        connection.set_autocommit(False)
        write(1)
        connection.set_autocommit(True)
        write(2)
        connection.close()

    call(switch)
    jobs_in_testcase.run_all(Called)
    assert effects() == [1, 2]


@pytest.mark.parametrize("is_broken", [False, True])
def test_a_job_that_leaves_atomic_open_ends_a_testcase_with_its_name(jobs_in_testcase, is_broken):
    def leave_open():
        write(1)
        transaction.atomic().__enter__()
        write(2)
        transaction.set_rollback(is_broken)

    job = call(leave_open)
    with pytest.raises(TransactionManagementError, match=f"{job} left a block of atomic"):
        jobs_in_testcase.run_all(Called)
    assert effects() == [1]
    with transaction.atomic():
        write(3)
    assert effects() == [1, 3]


def test_a_job_that_closes_a_testcases_connection_in_atomic_fails(jobs_in_testcase):
    def close():
        with transaction.atomic():
            write(1)
            connection.close()

    job = call(close)
    jobs_in_testcase.run_all(Called)
    assert f"TransactionManagementError: {job} left a block" in fresh(job).last_error
    assert effects() == []


def test_in_a_broken_transaction_django_says_so(jobs_in_testcase):
    connection.needs_rollback = True
    with pytest.raises(TransactionManagementError, match="An error occurred"):
        jobs_in_testcase.run_all(Note)
    connection.needs_rollback = False


def test_nothing_stays_of_it_on_the_tests_connection(jobs_in_testcase):
    statements = []

    def note(execute, sql, *rest):
        statements.append(sql)
        return execute(sql, *rest)

    names = ("execute_wrappers", "settings_dict", "savepoint_ids", "atomic_blocks", "autocommit")
    before = {name: getattr(connection, name) for name in names}
    attributes = set(vars(connection))
    with connection.execute_wrapper(note):
        Note.objects.create(action="fail")
        jobs_in_testcase.run_until_settled(Note)
    assert {name: getattr(connection, name) for name in names} == before
    assert set(vars(connection)) - attributes <= {"dbqueue_tables"}
    lasting = ("SET ", "SELECT set_config", "PRAGMA", "LISTEN")
    assert len(statements) > 20
    assert [sql for sql in statements if sql.startswith(lasting)] == []


def test_the_queries_that_a_test_counts_are_its_own(
    jobs_in_testcase, django_assert_num_queries, settings
):
    with django_assert_num_queries(2):
        Note.objects.create()
        jobs_in_testcase.run_all(Note)
        Note.objects.count()


@pytest.mark.parametrize(("fixture", "seen"), [("db", 0), ("db_rows", 1)])
def test_others_see_what_has_run_only_without_a_testcase(request, fixture, seen):
    request.getfixturevalue(fixture)
    with Jobs.watched() as jobs:
        Note.objects.create()
        jobs.run_all(Note)
    assert Worker.objects.get().stop_reason == "the test is over"
    with closing(other_connection()) as other, other.cursor() as cursor:
        for model in (Note, Worker):
            cursor.execute(f"SELECT COUNT(*) FROM {model._meta.db_table}")
            assert cursor.fetchone()[0] == seen


def test_ones_own_loop_may_claim_where_the_transaction_is_hidden(db):
    Note.objects.create()
    with hidden_transaction():
        [job] = Note.objects.claim()
        job.complete()
    assert fresh(job).state == "done"
    with pytest.raises(TransactionManagementError, match="claim"):
        Note.objects.claim()


def test_a_bounded_queue_works_where_the_transaction_is_hidden_as_in_autocommit(db):
    with limits(max_length=2), hidden_transaction():
        Note.objects.create()
        with transaction.atomic():
            Note.objects.create()
            transaction.set_rollback(True)
        Note.objects.create()
        with pytest.raises(QueueFull):
            Note.objects.create()
        assert Note.objects.count() == 2
