"""How a connection has PostgreSQL plan its statements."""

from django.db import connection


def planner_settings() -> str:
    """What is set on this thread's connection."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT name, setting FROM pg_settings WHERE name LIKE 'enable_%' OR name = 'jit'"
        )
        return str(sorted(cursor.fetchall()))
