"""What a PostgreSQL server says of itself, and of what stands around it."""

from collections.abc import Iterator

from django.db.backends.utils import CursorWrapper

from .types import ConnectionRoom

LAST_NUMBER = """
SELECT COALESCE(last_value, 0) FROM pg_sequences
WHERE quote_ident(schemaname) || '.' || quote_ident(sequencename) = {0}
    AND has_sequence_privilege({0}, 'SELECT')
"""
# What decodes changes, by a logical slot, is no standby. Most roles are told of the pids alone.
AROUND = """
SELECT pg_backend_pid(), pg_is_in_recovery(),
    (SELECT COUNT(*) FROM pg_stat_replication WHERE NOT EXISTS (
        SELECT 1 FROM pg_replication_slots WHERE active_pid = pid AND slot_type = 'logical')),
    current_setting('synchronous_standby_names') <> ''
        AND current_setting('synchronous_commit') NOT IN ('off', 'local')
"""
# What superusers alone may use is nobody's; -1 = no limit. Backends that serve no session have
# no user.
CONNECTIONS = """
SELECT current_setting('max_connections')::int
    - current_setting('superuser_reserved_connections')::int
    - COALESCE(current_setting('reserved_connections', true), '0')::int,
    COUNT(*), role.rolconnlimit, COUNT(*) FILTER (WHERE usesysid = role.oid),
    db.datconnlimit, COUNT(*) FILTER (WHERE datid = db.oid)
FROM pg_stat_activity, pg_roles AS role, pg_database AS db
WHERE usesysid IS NOT NULL AND datid IS NOT NULL
    AND role.rolname = session_user AND db.datname = current_database()
GROUP BY role.rolconnlimit, db.datconnlimit
"""
# A claim passes over those at the beginning of its index, for as long as they are there.
DEAD_ROWS_MAX = 200_000
SETTINGS = """
SELECT current_setting('autovacuum')::boolean AND COALESCE(enabled, 'on')::boolean,
    COALESCE(threshold, current_setting('autovacuum_vacuum_threshold'))::float8 +
    COALESCE(factor, current_setting('autovacuum_vacuum_scale_factor'))::float8 *
    GREATEST(reltuples, 0)
FROM pg_class, LATERAL (
    SELECT MAX(option_value) FILTER (WHERE option_name = 'autovacuum_enabled'),
        MAX(option_value) FILTER (WHERE option_name = 'autovacuum_vacuum_threshold'),
        MAX(option_value) FILTER (WHERE option_name = 'autovacuum_vacuum_scale_factor')
    FROM pg_options_to_table(reloptions)
) AS own (enabled, threshold, factor)
WHERE oid = to_regclass(%s)
"""
OFF = "autovacuum is off for {table}: its dead rows stay for good"
LATE = "autovacuum comes to {table} once {rows:,.0f} of its rows are dead"


def connection_room(cursor: CursorWrapper) -> ConnectionRoom:
    cursor.execute(CONNECTIONS)
    most, used, most_of_role, of_role, most_of_database, of_database = cursor.fetchone()
    rooms = [ConnectionRoom(most, used, "max_connections")]
    if most_of_role >= 0:
        rooms.append(ConnectionRoom(most_of_role, of_role, "the role's CONNECTION LIMIT"))
    if most_of_database >= 0:
        limit = "the database's CONNECTION LIMIT"
        rooms.append(ConnectionRoom(most_of_database, of_database, limit))
    return min(rooms, key=lambda one: one.free)


def cautions(cursor: CursorWrapper, pid: int) -> Iterator[tuple[str, str]]:
    """``pid``: of the process that was connected to."""
    cursor.execute(AROUND)
    found, is_standby, standbys, synchronous = cursor.fetchone()
    if found != pid:
        yield "dbqueue.W010", "a connection pooler answers, not the server itself"
    if is_standby:
        yield "dbqueue.W011", "this server is a standby, and takes no writes"
    elif standbys and not synchronous:
        yield "dbqueue.W012", "none of its standbys is synchronous"


def vacuum_problem(cursor: CursorWrapper, table: str) -> str:
    """``table``: its quoted name."""
    cursor.execute(SETTINGS, [table])
    row = cursor.fetchone()
    if row is None:
        return ""  # it is not there yet
    is_on, rows = row
    if not is_on:
        return OFF.format(table=table)
    return LATE.format(table=table, rows=rows) if rows > DEAD_ROWS_MAX else ""
