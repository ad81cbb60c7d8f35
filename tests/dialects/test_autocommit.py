"""An error on the way back from a transaction: what is written after it must not wait for a commit
that never comes."""

import pytest
from django.db import OperationalError, connection, connections, transaction

from django_dbqueue.lifecycle.execute import in_transaction
from django_dbqueue.worker.session import Session
from tests.kit.jobs import in_thread
from tests.queueapp.models import Note
from tests.sweeps.codes import CODES

pytestmark = pytest.mark.usefixtures("db_rows")


@pytest.fixture
def broken_way_back(monkeypatch):
    """The server refuses once to go back to autocommit."""
    connection.ensure_connection()
    original = connection._set_autocommit  # type: ignore[attr-defined]
    errors = [OperationalError("for the test")]

    def fail_once(autocommit):
        if autocommit and errors:
            raise errors.pop()
        original(autocommit)

    monkeypatch.setattr(connection, "_set_autocommit", fail_once)


def seen_by_others():
    return in_thread(Note.objects.count)


def test_a_transaction_of_ours_leaves_no_connection_out_of_autocommit(broken_way_back):
    with pytest.raises(OperationalError):
        in_transaction(connections["default"], Note.objects.create)
    Note.objects.create()
    assert seen_by_others() == 2


def test_a_thread_of_ours_goes_on_in_autocommit_after_a_transaction_of_djangos(broken_way_back):
    with pytest.raises(OperationalError), transaction.atomic():
        Note.objects.create()
    Session({"default"}).prepare()
    Note.objects.create()
    assert seen_by_others() == 2


def test_the_next_one_on_this_connection_is_in_autocommit(broken_way_back):
    """Users' code, after the last write of a worker in their own process."""
    with pytest.raises(OperationalError), transaction.atomic():
        Note.objects.create()
    with pytest.raises(OperationalError) as another_try, connection.wrap_database_errors:
        raise CODES[connection.vendor][0].error()
    Session({"default"}).recover(another_try.value)
    Note.objects.create()
    assert seen_by_others() == 2


def test_an_error_that_asks_for_another_try_keeps_the_connection():
    connection.ensure_connection()
    before = connection.connection
    with pytest.raises(OperationalError) as another_try, connection.wrap_database_errors:
        raise CODES[connection.vendor][0].error()
    Session({"default"}).recover(another_try.value)
    assert connection.connection is before
