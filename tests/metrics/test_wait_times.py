"""How long jobs waited until they were claimed first."""

import pytest
from django.db.models import Sum

from django_dbqueue.metrics import recorder, wait_times
from django_dbqueue.models import Minute
from django_dbqueue.models.minute import WAITED
from django_dbqueue.states import Status
from django_dbqueue.testing import virtual_clock
from tests.kit.inline_worker import drain
from tests.kit.jobs import fresh
from tests.queueapp.models import Note

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.each_database]


@pytest.fixture(autouse=True)
def nothing_from_before(monkeypatch):
    """Other tests run jobs in this process, too."""
    recorder._forget()
    monkeypatch.setattr(wait_times, "SAMPLE_SECONDS", 0.0)


def waits():
    found = Minute.objects.aggregate(**{name: Sum(name) for name in WAITED})
    return sum(number or 0 for number in found.values())


def test_a_job_is_counted_when_it_is_claimed_first():
    Note.objects.enqueue()
    with virtual_clock() as clock:
        drain(clock, "queueapp.note")
    assert waits() == 1


def test_a_job_that_a_person_lets_begin_once_more_has_not_waited_since_it_was_enqueued():
    job, _ = Note.objects.enqueue(action="fail")
    with virtual_clock() as clock:
        drain(clock, "queueapp.note", "--tries", "1")
        assert fresh(job).status == Status.BURIED
        assert waits() == 1
        clock.move(1_500)
        Note.objects.filter(pk=job.pk).kick()
        drain(clock, "queueapp.note", "--tries", "1")
    assert waits() == 1
