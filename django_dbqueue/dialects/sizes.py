"""How much a statement may hold."""

from django.db.backends.base.base import BaseDatabaseWrapper

REST_OF_STATEMENT = 64 * 1024  # bytes, next to the value


def largest_value(connection: BaseDatabaseWrapper) -> int | None:
    """In bytes; None = up to a gigabyte.

    MariaDB and MySQL break the connection where a statement is larger than ``max_allowed_packet``,
    in which each byte may take two.
    """
    if connection.vendor != "mysql":
        return None
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@max_allowed_packet")
        return max(0, int(cursor.fetchone()[0]) - REST_OF_STATEMENT) // 2
