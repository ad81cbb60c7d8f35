"""A Galera cluster for all tests of a file."""

import pytest

from tests.kit.galera import cluster


@pytest.fixture(scope="module")
def started(django_db_blocker):
    with django_db_blocker.unblock(), cluster() as found:
        yield found


@pytest.fixture
def galera(started, django_db_blocker):
    with django_db_blocker.unblock():
        started.empty()
        yield started
