"""The verbs of the kit, in both kinds of test that Django has."""

import pytest

from django_dbqueue.testing.verbs import Jobs


@pytest.fixture(params=["TestCase", "autocommit"])
def jobs(request):
    """In the transaction of a ``TestCase``, and in none."""
    request.getfixturevalue("db" if request.param == "TestCase" else "db_rows")
    with Jobs.watched() as jobs:
        yield jobs


@pytest.fixture
def jobs_in_testcase(db):
    with Jobs.watched() as jobs:
        yield jobs
