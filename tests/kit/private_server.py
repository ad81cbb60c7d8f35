"""A database server of a test's own, of the same kind as the one under test: to be stopped, killed
and frozen. For SQLite it is a file.
"""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import database_servers as servers
import dj_database_url
import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection, connections
from folders import in_memory
from mysql_servers import MariaDB, MySQL

from tests.kit.connections import is_mysql
from tests.kit.outage_scene import ALIAS

ACCOUNT = "worker"


class PrivateDatabase:
    """What both kinds have: an alias by which the test looks into it."""

    # What the test itself connects with, and what workers do.
    admin_url = ""
    database_url = ""
    kept: Any = None

    def start(self) -> None:
        """Start it, again if need be; returns once it answers."""

    def stop(self) -> None:
        """Stop it and wait until it is gone."""

    def migrate(self) -> None:
        with self.alias():
            call_command("migrate", database=ALIAS, run_syncdb=True, verbosity=0)

    @contextmanager
    def alias(self) -> Iterator[str]:
        """While this lasts, Django's connection ``ALIAS`` leads here."""
        config = {**connections.settings["default"], "OPTIONS": {}}
        config |= dj_database_url.parse(self.admin_url)
        if connection.vendor == "sqlite":
            config["OPTIONS"] = connections.settings["default"]["OPTIONS"]
        connections.settings[ALIAS] = config
        try:
            yield ALIAS
        finally:
            connections[ALIAS].close()
            del connections[ALIAS]
            del connections.settings[ALIAS]

    def sql(self, statement: str, *params: Any) -> list[tuple[Any, ...]]:
        """Run a statement on a connection that is closed afterwards; the rows, if any."""
        own = nullcontext(self.kept) if self.kept else closing(connections[ALIAS].copy())
        with own as connected, connected.cursor() as cursor:
            cursor.execute(statement, params or None)
            return list(cursor.fetchall()) if cursor.description else []

    @contextmanager
    def connected(self) -> Iterator[None]:
        """While this lasts, ``sql`` keeps its connection: a full server may not take it back, nor
        forget the last one at once."""
        with closing(connections[ALIAS].copy()) as kept:
            self.kept = kept
            try:
                yield
            finally:
                self.kept = None


class PrivateFile(PrivateDatabase):
    """A SQLite database in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.admin_url = self.database_url = f"sqlite:///{folder}/private.sqlite3"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the write lock."""
        with closing(connections[ALIAS].copy()) as own, own.cursor() as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            yield
            cursor.execute("ROLLBACK")


class PrivateServer(PrivateDatabase):
    """A MariaDB, MySQL or PostgreSQL server; workers reach it by an account without privileges."""

    def __init__(self, folder: Path) -> None:
        self.server = kind_of_server()(folder)
        self.admin_url = self.server.url()
        old, new = f"{kind_account(self.admin_url)}@", f"{ACCOUNT}@"
        self.database_url = self.admin_url.replace(old, new, 1)

    def start(self) -> None:
        self.server.start()

    def stop(self) -> None:
        if ALIAS in connections.settings:
            connections[ALIAS].close()
        self.server.stop()

    def migrate(self) -> None:
        super().migrate()
        with self.alias():
            for statement in ORDINARY[connection.vendor]:
                self.sql(statement)

    def kill(self) -> None:
        """SIGKILL to all of its processes, as when the machine goes down."""
        self.server.kill()
        self.stop()

    def freeze(self) -> None:
        """SIGSTOP to all of its processes."""
        self.server.freeze()

    def thaw(self) -> None:
        for pid in reversed(servers.family(self.server.pid())):
            os.kill(pid, signal.SIGCONT)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        self.freeze()
        try:
            yield
        finally:
            self.thaw()

    @contextmanager
    def away(self) -> Iterator[None]:
        """Stopped in an orderly way, and started again."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def clients(self) -> list[int]:
        """The server's ids of the workers' connections."""
        found = self.sql(CLIENTS[connection.vendor], ACCOUNT)
        return [number for (number,) in found]


CLIENTS = {
    "mysql": "SELECT id FROM information_schema.processlist WHERE user = %s",
    "postgresql": "SELECT pid FROM pg_stat_activity WHERE usename = %s",
}
ORDINARY = {
    "mysql": [
        f"CREATE USER {ACCOUNT}@localhost",
        f"GRANT ALL ON {servers.DATABASE}.* TO {ACCOUNT}@localhost",
    ],
    "postgresql": [
        f"CREATE ROLE {ACCOUNT} LOGIN",
        f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {ACCOUNT}",
        f"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {ACCOUNT}",
    ],
}


def kind_of_server() -> type[servers.Server]:
    if connection.vendor == "postgresql":
        return servers.PostgreSQL
    return MySQL if is_mysql() else MariaDB


def kind_account(url: str) -> str:
    return url.partition("://")[2].partition("@")[0]


def private_database(folder: Path) -> PrivateDatabase:
    return PrivateFile(folder) if connection.vendor == "sqlite" else PrivateServer(folder)


@contextmanager
def started(folder: Path) -> Iterator[PrivateDatabase]:
    """A private database, migrated; stopped afterwards."""
    folder.chmod(0o711)
    database = private_database(folder)
    try:
        database.start()
        database.migrate()
        yield database
    finally:
        database.stop()


@pytest.fixture(scope="session")
def private_session(
    request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: Any
) -> Iterator[PrivateDatabase]:
    # Not pytest's own folder: its path may be too long for a socket.
    place = None if request.config.getoption("--full") else in_memory()
    folder = Path(tempfile.mkdtemp(prefix="dbq-", dir=place or "/tmp"))
    try:
        with django_db_blocker.unblock(), started(folder) as database:
            yield database
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def private(private_session: PrivateDatabase, django_db_blocker: Any) -> Iterator[PrivateDatabase]:
    """The private database, running, its queue tables empty, reached by the alias ``ALIAS``."""
    with django_db_blocker.unblock(), private_session.alias():
        private_session.start()
        empty()
        yield private_session


def empty() -> None:
    """Delete the rows of all queue tables, and of their workers and queues."""
    for model in reversed(apps.get_models()):
        if model._meta.app_label in {"queueapp", "shop"} or "dbqueue" in model._meta.app_label:
            model._base_manager.using(ALIAS)._raw_delete(ALIAS)
