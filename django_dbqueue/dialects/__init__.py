"""What differs between the databases, and nothing else; the only place that looks at the vendor."""

import logging
from collections.abc import Iterator
from weakref import WeakKeyDictionary

from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from ..fields import InstantField, NameField
from .base import Dialect
from .mysql import MySQL
from .postgresql import PostgreSQL
from .sqlite import SQLite
from .types import Claim, ErrorKind

__all__ = [
    "Claim",
    "Dialect",
    "ErrorKind",
    "anyone_notifies",
    "dialect_of",
    "installed",
    "is_of_one_process",
]

logger = logging.getLogger("django_dbqueue")

DIALECTS: dict[str, type[Dialect]] = {"mysql": MySQL, "postgresql": PostgreSQL, "sqlite": SQLite}

_dialects: WeakKeyDictionary[BaseDatabaseWrapper, Dialect] = WeakKeyDictionary()


def dialect_of(connection: BaseDatabaseWrapper) -> Dialect:
    """The dialect of a connection; ``ImproperlyConfigured`` for an unsupported database."""
    dialect = _dialects.get(connection)
    if dialect is None:
        dialect = _dialects[connection] = _dialect_class(connection)(connection)
    return dialect


def anyone_notifies() -> bool:
    """Whether the setting NOTIFY has an effect on any database of the project."""
    vendors = {connection.vendor for connection in installed()}
    return any(DIALECTS[vendor].can_notify() for vendor in vendors & set(DIALECTS))


def installed() -> Iterator[BaseDatabaseWrapper]:
    """This thread's connections, without those whose driver is missing: no job is there."""
    for alias in connections:
        try:
            yield connections[alias]
        except ImproperlyConfigured as error:
            logger.info("database %s is passed over: %s", alias, str(error).partition("\n")[0])


def is_of_one_process(connection: BaseDatabaseWrapper) -> bool:
    """Whether the database is in this process's memory, as SQLite's are in a project's tests."""
    return connection.vendor == "sqlite" and bool(connection.is_in_memory_db())  # type: ignore[attr-defined]


def _dialect_class(connection: BaseDatabaseWrapper) -> type[Dialect]:
    try:
        return DIALECTS[connection.vendor]
    except KeyError:
        raise ImproperlyConfigured(
            f"django-dbqueue supports {', '.join(DIALECTS)}, not {connection.vendor!r} "
            f"(database {connection.alias!r})"
        ) from None


def _bytewise_collation(connection: BaseDatabaseWrapper) -> str | None:
    dialect = DIALECTS.get(connection.vendor)
    return dialect.name_collation if dialect else None


def _readable_instant(connection: BaseDatabaseWrapper, sql: str, has_params: bool) -> str:
    dialect = DIALECTS.get(connection.vendor, Dialect)
    # The parameters are those of one occurrence.
    return dialect.readable_expression(sql) if has_params else dialect.readable_column(sql)


NameField.bytewise_collation = staticmethod(_bytewise_collation)
InstantField.readable = staticmethod(_readable_instant)
