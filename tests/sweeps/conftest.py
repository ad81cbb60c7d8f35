import logging

import pytest


@pytest.fixture
def quiet_log(caplog):
    """Each of thousands of faults is logged; the verdicts say what matters."""
    caplog.set_level(logging.CRITICAL, "django_dbqueue")
