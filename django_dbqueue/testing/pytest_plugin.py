"""The verbs for pytest: the fixture ``dbqueue``.

pytest imports this in every project of an environment in which the package is installed: nothing of
Django's is imported before a test asks for the fixture.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .verbs import Jobs


@pytest.fixture
def dbqueue(request: pytest.FixtureRequest) -> "Iterator[Jobs]":
    """The jobs of this test: ``run_all``, ``run_until_settled``, ``assert_enqueued``,
    ``assert_not_enqueued`` and ``captured_jobs``.

    With pytest-django it opens the database, as the fixture ``db`` does.
    """
    if request.config.pluginmanager.has_plugin("django"):
        request.getfixturevalue("db")
    from .verbs import Jobs  # noqa: PLC0415

    with Jobs.watched() as jobs:
        yield jobs
