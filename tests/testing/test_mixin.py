"""The verbs on Django's own test cases, run as Django runs them."""

import unittest

import pytest
from django.db import connection, transaction
from django.test import TestCase
from django.test.utils import CaptureQueriesContext

from django_dbqueue import events
from django_dbqueue.models import Minute, Queue, Worker
from django_dbqueue.testing import JobTestMixin, hidden_transaction
from tests.queueapp.called import call
from tests.queueapp.models import Effect, Note, Transfer

# The test that runs these must not be in a transaction.
pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.one_database]


def outcome(case):
    """What became of the tests of a class."""
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    return result


def assert_all_passed(case, count):
    result = outcome(case)
    assert [text for _, text in result.failures + result.errors] == []
    assert result.testsRun == count


def by_hand():
    connection.set_autocommit(False)
    with transaction.atomic():
        Effect.objects.create(job=1)
    connection.commit()
    connection.set_autocommit(True)


def test_nothing_of_a_test_is_left_after_it_and_the_next_one_begins_with_nothing():
    class Twice(JobTestMixin, TestCase):
        __test__ = False

        def test_first(self):
            assert Note.objects.count() + Effect.objects.count() == 0
            Note.objects.create(action="fail")
            Transfer.objects.create()
            call(by_hand)
            Note.objects.pause("blue")
            assert self.run_until_settled() == 5
            self.assert_enqueued(Note, state="buried")
            assert Effect.objects.count() == 2
            with hidden_transaction():
                by_hand()

        test_second = test_first

    assert_all_passed(Twice, 2)
    for model in (Note, Transfer, Effect, Minute, Queue, Worker):
        assert model.objects.count() == 0


def test_a_test_begins_before_set_up_and_after_the_data_of_its_class():
    class WithData(JobTestMixin, TestCase):
        __test__ = False

        @classmethod
        def setUpTestData(cls):
            Note.objects.create(text="of the class")

        def setUp(self):
            Note.objects.create(text="of the test")

        def test_it(self):
            self.assert_not_enqueued(Note, text="of the class")
            self.assert_enqueued(Note, text="of the test")
            with self.captured_jobs(Note) as found:
                assert self.run_all(Note) == 2
            assert found == []

    assert_all_passed(WithData, 1)


def test_a_failed_assertion_is_a_failure_and_no_error():
    class Failing(JobTestMixin, TestCase):
        __test__ = False

        def test_it(self):
            self.assert_enqueued(Note)

    result = outcome(Failing)
    [(_, text)] = result.failures
    assert "no queueapp.Note was enqueued, nor anything else" in text
    assert result.errors == []


def test_a_test_that_is_skipped_asks_no_database():
    @unittest.skip("not today")
    class Skipped(JobTestMixin, TestCase):
        __test__ = False

        def test_it(self):
            raise AssertionError

    with CaptureQueriesContext(connection) as queries:
        assert len(outcome(Skipped).skipped) == 1
    assert len(queries) == 0


def test_tables_of_databases_that_a_test_does_not_name_are_left_out():
    class Closed(JobTestMixin, TestCase):
        __test__ = False
        databases = set()

        def test_it(self):
            with pytest.raises(TypeError, match="its database is not open to this test"):
                self.assert_enqueued(Note)

    assert_all_passed(Closed, 1)


def test_behind_the_test_case_it_says_where_it_belongs():
    class Reversed(TestCase, JobTestMixin):
        __test__ = False

        def test_it(self):
            with pytest.raises(TypeError, match="JobTestMixin comes first"):
                self.run_all()

    assert_all_passed(Reversed, 1)


def test_nobody_listens_any_more_when_the_tests_are_over():
    class Passing(JobTestMixin, TestCase):
        __test__ = False

        def test_it(self):
            pass

    before = list(events.claimed.receivers)
    assert_all_passed(Passing, 1)
    assert events.claimed.receivers == before
