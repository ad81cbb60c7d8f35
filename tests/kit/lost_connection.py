"""A connection that ends while Django takes it for open."""

from contextlib import suppress
from typing import Any

from django.db import connection

END = {
    "postgresql": "SELECT pg_terminate_backend(pg_backend_pid())",
    "mysql": "KILL CONNECTION_ID()",
}


def lose_connection() -> None:
    """Past Django, which would note the error."""
    connection.ensure_connection()
    if connection.vendor == "sqlite":
        connection.connection.close()
        return
    driver: Any = connection.Database  # type: ignore[attr-defined]
    with suppress(driver.Error):
        connection.connection.cursor().execute(END[connection.vendor])
