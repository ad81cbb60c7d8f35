"""What tests of several files need."""

from typing import Any

import pytest

from django_dbqueue.lifecycle import low_water


@pytest.fixture
def quick_looks(monkeypatch: Any) -> None:
    """No look counts as slow, however busy the machine is: so no floor is in force."""
    monkeypatch.setattr(low_water, "CHEAP", 3600.0)
