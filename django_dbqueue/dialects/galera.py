"""A Galera cluster of MariaDB servers: each shows what was committed on another a moment later.

It never writes over what it has not seen: then its commit is refused, as after a deadlock. But what
it does not see yet it may take for lost or gone.
"""

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

# Answered once this node has what all nodes have committed by now. In a transaction it is not.
CATCH_UP = "SET STATEMENT wsrep_sync_wait = 1 FOR SELECT 1"
CONNECTIONS = 4  # of one client, by which a balancer shows where it sends them
SETTINGS = "@@SESSION.wsrep_sync_wait", "@@GLOBAL.wsrep_node_name"


def is_node(cursor: CursorWrapper) -> bool:
    """Whether the server is a node of a cluster."""
    cursor.execute("SHOW GLOBAL VARIABLES LIKE 'wsrep_on'")
    row = cursor.fetchone()
    return row is not None and str(row[1]).upper() in {"ON", "1"}


def spread(connection: BaseDatabaseWrapper) -> str:
    """Where a balancer sends connections of this one's settings, if to several nodes that do not
    wait for each other; else ''."""
    nodes = set()
    for _ in range(CONNECTIONS):
        own = connection.copy()
        try:
            with own.cursor() as cursor:
                cursor.execute(f"SELECT {', '.join(SETTINGS)}")
                waits, node = cursor.fetchone()
        finally:
            own.close()
        if int(waits) & 1:
            return ""
        nodes.add(str(node))
    if len(nodes) == 1:
        return ""
    return f"connections go to several nodes of a Galera cluster ({', '.join(sorted(nodes))})"
