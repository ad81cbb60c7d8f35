"""What a server of MariaDB or MySQL says of itself, and of what stands around it."""

from collections.abc import Iterator

from django.db.backends.utils import CursorWrapper

from .types import ConnectionRoom

UNPURGED_MAX = 1_000_000  # transactions whose old rows stay


def cautions(cursor: CursorWrapper) -> Iterator[tuple[str, str]]:
    cursor.execute("SELECT @@GLOBAL.read_only")
    if cursor.fetchone()[0]:
        yield "dbqueue.W011", "this server takes no writes (read_only): it may be a replica"
    # MariaDB's own; MySQL shows nobody without privileges who replicates from it.
    names = "'Slaves_connected', 'Rpl_semi_sync_master_status', 'Innodb_history_list_length'"
    cursor.execute(f"SHOW GLOBAL STATUS WHERE Variable_name IN ({names})")
    status = dict(cursor.fetchall())
    if int(status.get("Slaves_connected", 0)) and status.get("Rpl_semi_sync_master_status") != "ON":
        yield "dbqueue.W012", "its replicas are asynchronous"
    if (behind := int(status.get("Innodb_history_list_length", 0))) > UNPURGED_MAX:
        yield "dbqueue.W014", f"the old rows of {behind:,} transactions are not purged yet"


def connection_room(cursor: CursorWrapper) -> ConnectionRoom:
    cursor.execute("SELECT @@GLOBAL.max_connections, @@SESSION.max_user_connections")
    most, most_of_user = cursor.fetchone()
    cursor.execute("SHOW GLOBAL STATUS LIKE 'Threads_connected'")
    room = ConnectionRoom(int(most), int(cursor.fetchone()[1]), "max_connections")
    if not most_of_user:
        return room
    # An account that may not see others' sessions sees all of its own.
    cursor.execute(
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST "
        "WHERE USER = SUBSTRING_INDEX(CURRENT_USER(), '@', 1)"
    )
    ours = ConnectionRoom(int(most_of_user), cursor.fetchone()[0], "max_user_connections")
    return min(room, ours, key=lambda one: one.free)


def engine_problem(cursor: CursorWrapper, table: str) -> str:
    cursor.execute(
        "SELECT engine FROM information_schema.tables "
        "WHERE table_schema = DATABASE() AND table_name = %s",
        [table],
    )
    row = cursor.fetchone()
    if row is None or str(row[0]).lower() == "innodb":
        return ""
    return f"the table's engine is {row[0]}, which has no transactions; make it InnoDB"
