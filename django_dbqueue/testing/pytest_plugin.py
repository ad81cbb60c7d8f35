"""The verbs for pytest: the fixture ``dbqueue``.

pytest imports this in every project of an environment in which the package is installed: nothing of
Django's is imported before a test asks for the fixture.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .verbs import Jobs


class _WithPytestDjango:
    """pytest-django makes test databases for those tests whose fixtures name ``db`` before they
    run: one that asks for it by ``getfixturevalue()`` may find the project's own database.
    """

    @pytest.fixture
    def _dbqueue_database(self, db: None) -> None:
        pass


class _WithoutPytestDjango:
    @pytest.fixture
    def _dbqueue_database(self) -> None:
        pass


def pytest_configure(config: pytest.Config) -> None:
    plugins = config.pluginmanager
    database = _WithPytestDjango if plugins.has_plugin("django") else _WithoutPytestDjango
    plugins.register(database(), "dbqueue_database")


@pytest.fixture
def dbqueue(_dbqueue_database: None) -> "Iterator[Jobs]":
    """The jobs of this test: ``run_all``, ``run_until_settled``, ``assert_enqueued``,
    ``assert_not_enqueued`` and ``captured_jobs``.

    With pytest-django it opens the database, as the fixture ``db`` does.
    """
    from .verbs import Jobs  # noqa: PLC0415

    with Jobs.watched() as jobs:
        yield jobs
