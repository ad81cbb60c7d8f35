"""Settings of our own connections behind a pooler, such as PgBouncer in transaction mode.

Each transaction there runs in whatever session of the server is free, and the next one of somebody
else's in the same. So nothing is set for a session: what our statements need goes before each of
them, for their transaction alone, in the same message, which costs no way to the server and back.
"""

import re
from collections.abc import Callable
from typing import Any
from weakref import proxy, ref

from django.db.backends.base.base import BaseDatabaseWrapper

# Not what ends a transaction: one that has failed takes nothing but its end.
TAKES_SETTINGS = re.compile(r"[\s(]*(?:SELECT|INSERT|UPDATE|DELETE|WITH)\b", re.IGNORECASE)


class TransactionSettings:
    """What goes before each statement of one connection of our own; an execute wrapper of Django's.

    With ``server_side_binding`` a message holds one statement, and nothing is set.
    """

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self._connection = proxy(connection)
        # It is ours until it is closed.
        self._session = ref(connection.connection)
        self._settings: dict[str, str] = {}
        self.set(lock_timeout="2s")
        if not connection.settings_dict["OPTIONS"].get("server_side_binding"):
            # First: Django takes off the last one where a wrapper's block ends.
            connection.execute_wrappers.insert(0, self)

    def set(self, **settings: str) -> None:
        """From here on; several of them, by name."""
        self._settings |= settings
        each = (f"SET LOCAL {name} = '{value}'; " for name, value in self._settings.items())
        self._sql = "".join(each)

    def end(self) -> None:
        if self in self._connection.execute_wrappers:
            self._connection.execute_wrappers.remove(self)

    def __call__(
        self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any
    ) -> Any:
        if self._session() is not context["connection"].connection:
            self.end()
            return execute(sql, params, many, context)
        cursor = context["cursor"].cursor
        is_on_server = getattr(cursor, "name", None) is not None
        if many or is_on_server or not isinstance(sql, str) or not TAKES_SETTINGS.match(sql):
            return execute(sql, params, many, context)
        answer = execute(self._sql + sql, params, many, context)
        # Past the answers of the settings, which psycopg2 does not keep.
        if not type(cursor).__module__.startswith("psycopg2"):
            for _ in self._settings:
                cursor.nextset()
        return answer
