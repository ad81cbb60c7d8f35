"""How far a task is, as it says itself."""

import math
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.db.utils import OperationalError, ProgrammingError
from django.utils import timezone

from django_dbqueue.states import Status
from django_dbqueue.tasks import progress
from django_dbqueue.tasks.models import Task
from django_dbqueue.tasks.progress import write_progress
from django_dbqueue.tasks.reasons import progress_text
from tests.kit.jobs import overwrite
from tests.kit.lost_connection import lose_connection
from tests.tasks import calls
from tests.tasks.test_backend import rows
from tests.tasks.test_running import explained, ran

pytestmark = pytest.mark.usefixtures("db_rows")


def test_progress_is_kept():
    ran(calls.walk, 10)
    [row] = rows()
    assert row.progress == {"done": 10, "total": 10, "note": "step 10"}
    overwrite(row, status=Status.CLAIMED)
    assert "Progress: 10 of 10 (100 %): step 10." in explained(row)
    overwrite(row, retry_at=timezone.now() + timedelta(hours=1))
    said = StringIO()
    call_command("dbqueue", "status", stdout=said)
    assert f"task {row.pk} (tests.tasks.calls.walk): 10 of 10 (100 %): step 10" in said.getvalue()


def test_a_progress_that_is_no_share_is_told_as_it_is():
    assert progress_text({"done": 10**400, "total": 3, "note": "far"}) == f"{10**400}: far"


def test_progress_is_written_at_most_once_a_second(monkeypatch, django_assert_num_queries):
    monkeypatch.setattr(progress, "PROGRESS_SECONDS", 60)
    calls.noop.enqueue()
    [row] = Task.objects.claim()
    with django_assert_num_queries(2):  # the first, and the last
        for step in range(1, 101):
            write_progress(row, step, 100, "")


def test_a_late_worker_writes_no_progress_over_its_new_owners():
    calls.noop.enqueue()
    [late] = Task.objects.claim()
    Task.objects.release()
    [row] = Task.objects.claim()
    write_progress(row, 1, 2, "new")
    write_progress(late, 9, 9, "late")
    assert rows()[0].progress["note"] == "new"


class OfALibrary:
    """As numpy's are: no subclass of a number."""

    def __init__(self, number):
        self.number = number

    def __float__(self):
        return float(self.number)


@pytest.mark.parametrize("number", [Decimal("2.5"), Fraction(5, 2), OfALibrary(2.5), 2.5])
def test_a_progress_may_be_any_kind_of_number(number):
    calls.noop.enqueue()
    [row] = Task.objects.claim()
    write_progress(row, number, number, "")
    assert rows()[0].progress == {"done": 2.5, "total": 2.5, "note": ""}


@pytest.mark.parametrize("odd", [True, "3", None, [1], 1j, math.nan, math.inf, Decimal("sNaN")])
def test_a_progress_that_is_no_number_is_named(odd):
    calls.noop.enqueue()
    [row] = Task.objects.claim()
    with pytest.raises(ValueError, match="done must be a number, not"):
        write_progress(row, odd, 3, "")
    assert rows()[0].progress is None


def refusing(error):
    """Every statement of this connection fails."""

    def refuse(*_):
        raise error

    return connection.execute_wrapper(refuse)


def test_a_database_that_is_away_for_a_moment_costs_no_task_its_end(caplog):
    calls.noop.enqueue()
    [row] = Task.objects.claim()
    with refusing(OperationalError("away\nand more")):
        write_progress(row, 1, 1, "")
    assert caplog.messages == [f"{row}: its progress was not written: away"]
    write_progress(row, 2, 2, "")
    assert rows()[0].progress["done"] == 2


@pytest.mark.skipif(connection.vendor == "sqlite", reason="there is no server to lose")
def test_after_a_lost_connection_the_task_has_another():
    calls.noop.enqueue()
    [row] = Task.objects.claim()
    lose_connection()
    write_progress(row, 1, 1, "")
    assert rows()[0].progress is None
    write_progress(row, 2, 2, "")
    assert rows()[0].progress["done"] == 2


def test_in_a_transaction_a_progress_that_is_not_written_is_an_error():
    calls.noop.enqueue()
    [row] = Task.objects.claim()
    with transaction.atomic():
        with refusing(OperationalError("away")), pytest.raises(OperationalError, match="away"):
            write_progress(row, 1, 1, "")
        transaction.set_rollback(True)


def test_so_is_what_no_moment_mends():
    calls.noop.enqueue()
    [row] = Task.objects.claim()
    with refusing(ProgrammingError("no such column")), pytest.raises(ProgrammingError):
        write_progress(row, 1, 1, "")


@pytest.mark.parametrize("total", ["x", None, 0, [1]])
def test_a_progress_that_a_hand_wrote_can_be_shown(total):
    assert progress_text({"done": 1, "total": total, "note": "n"}) == "1: n"
