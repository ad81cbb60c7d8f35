import logging

import pytest
from django.db import connection


@pytest.fixture
def quiet_log(caplog):
    """Each of thousands of faults is logged; the verdicts say what matters."""
    caplog.set_level(logging.CRITICAL, "django_dbqueue")


@pytest.fixture
def unsynced(db_rows):
    """Nothing loses its power here, so none of thousands of commits has to wait for the disk."""
    options = connection.settings_dict["OPTIONS"]
    with pytest.MonkeyPatch.context() as patched:
        if connection.vendor == "postgresql":
            patched.setitem(options, "options", "-c synchronous_commit=off")
        elif connection.vendor == "sqlite":
            first = f"{options['init_command']} PRAGMA synchronous=OFF"
            patched.setitem(options, "init_command", first)
        connection.close()
        yield
    connection.close()  # what connects from here on waits for the disk again
