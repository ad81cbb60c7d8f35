"""What tests of schedules share."""

import pytest

from django_dbqueue.lifecycle.table import table_of
from django_dbqueue.schedules import scheduler
from django_dbqueue.schedules.scheduler import Scheduler
from django_dbqueue.testing import virtual_clock
from tests.kit.schedules import START
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note


@pytest.fixture
def looking(monkeypatch):
    """A scheduler of this process, which looks whenever it is asked."""
    monkeypatch.setattr(scheduler, "LIFE_SECONDS_MAX", 0.5)
    here = Scheduler([table_of(Note, "default")])
    yield here
    wait_until(lambda: not here._is_enqueueing())


@pytest.fixture
def clock():
    """Of the database and of this process, which goes on when a test moves it."""
    with virtual_clock(START) as clock:
        yield clock
