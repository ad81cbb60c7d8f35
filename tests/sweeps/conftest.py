import logging

import pytest
from django.db import connection


@pytest.fixture
def quiet_log(caplog):
    """Each of thousands of faults is logged; the verdicts say what matters."""
    caplog.set_level(logging.CRITICAL, "django_dbqueue")


@pytest.fixture
def unsynced(db_rows, monkeypatch):
    """No server dies here, so none of thousands of commits has to wait for the disk."""
    if connection.vendor == "postgresql":
        options = connection.settings_dict["OPTIONS"]
        monkeypatch.setitem(options, "options", "-c synchronous_commit=off")
        connection.close()
