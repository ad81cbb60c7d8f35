"""What can be done to each kind of database, so that the queue feels it."""

import random
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import Error

from ..dialects import Dialect, dialect_of
from ..dialects.mysql import MySQL
from ..dialects.postgresql import PostgreSQL
from ..lifecycle.execute import rows
from ..lifecycle.table import table_of
from .models import TestJob
from .proxy import Proxy

ACCOUNT = "dbqueue_torture"
_nap = threading.Event()


def here() -> BaseDatabaseWrapper:
    """This thread's connection to the scratch database."""
    return connections["default"]


def faults_for_this_database() -> "DatabaseFaults":
    return DATABASE_FAULTS.get(type(dialect_of(here())), DatabaseFaults)()


@contextmanager
def behind_a_proxy(config: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Proxy | None]]:
    """The database as workers are to reach it, and the proxy; none where it has no known place."""
    place = faults_for_this_database().place(config)
    if place is None:
        yield config, None
        return
    options = {k: v for k, v in config["OPTIONS"].items() if k != "unix_socket"}
    with Proxy(place) as proxy:
        yield config | {"HOST": "127.0.0.1", "PORT": proxy.port, "OPTIONS": options}, proxy


def sql(statement: str, *params: str | int) -> list[tuple[Any, ...]]:
    with here().cursor() as cursor:
        cursor.execute(statement, params or None)
        return list(cursor.fetchall()) if cursor.description else []


class DatabaseFaults:
    """On SQLite there is no server: a lock and an old snapshot are all that others can do."""

    clients: ClassVar[str] = ""
    drop: ClassVar[str] = ""
    snapshot: ClassVar[tuple[str, ...]] = ("BEGIN",)
    takes_read_only: ClassVar[bool] = False
    missing: ClassVar[str] = (
        "SQLite has no connections to drop, no read-only spells, and is never silent"
    )

    @contextmanager
    def account(self, config: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The database as processes have to reach it that read-only is to bind."""
        yield config

    def place(self, config: dict[str, Any]) -> str | tuple[str, int] | None:
        """Where the server listens, as a proxy has to know it: a socket's path, or host and
        port."""
        return None

    def drop_connection(self, rng: random.Random) -> bool:
        """Whether there was one to drop."""
        found = rows(here(), self.clients, []) if self.clients else []
        if found:
            sql(self.drop, rng.choice(sorted(found))[0])
        return bool(found)

    def read_only(self, on: bool) -> None:
        """Let the database take no writes, or take them again."""

    def contend(self, rng: random.Random) -> None:
        """Have transactions be in the way of the queue's, for a moment."""
        with transaction.atomic():
            sql("SELECT 1")
            _nap.wait(rng.uniform(0.1, 1))


class ServerFaults(DatabaseFaults):
    """Two transactions lock the same jobs in opposite orders."""

    takes_read_only = True
    missing = ""

    def contend(self, rng: random.Random) -> None:
        table = table_of(TestJob, "default")
        found = rows(here(), f"SELECT {table.pk} FROM {table.name} WHERE status < 2 LIMIT 20", [])
        keys = [key for (key,) in rng.sample(found, min(4, len(found)))]
        gate = threading.Barrier(2)
        ways = [lambda: _lock(keys, gate), lambda: _lock(keys[::-1], gate)]
        threads = [threading.Thread(target=apart, args=(way,), daemon=True) for way in ways]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def _lock(keys: list[Any], gate: threading.Barrier) -> None:
    jobs = TestJob.objects.select_for_update()
    with transaction.atomic():
        for number, key in enumerate(keys):
            jobs.filter(pk=key).first()
            if not number:
                try:
                    gate.wait(1)
                except threading.BrokenBarrierError:
                    pass  # the other one waits for the same job


def apart(work: Callable[[], object]) -> None:
    """Do something to the database on a thread of its own, which may fail while others do too."""
    try:
        work()
    except Error:
        pass  # it was killed, or away, or chosen as the victim
    finally:
        connections.close_all()


class MySQLFaults(ServerFaults):
    clients = (
        "SELECT id FROM information_schema.processlist "
        "WHERE db = DATABASE() AND id <> CONNECTION_ID()"
    )
    drop = "KILL %s"
    snapshot = (
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    )
    hosts = ("%", "localhost")

    def place(self, config: dict[str, Any]) -> str | tuple[str, int] | None:
        path = config["OPTIONS"].get("unix_socket") or config["HOST"]
        if path.startswith("/"):
            return str(path)
        return (path, int(config["PORT"] or 3306)) if path else None

    @contextmanager
    def account(self, config: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """One of their own: who may administer the server may always write."""
        password, name = secrets.token_urlsafe(12), here().ops.quote_name(config["NAME"])
        self._forget_account()
        try:
            for host in self.hosts:
                sql(f"CREATE USER {ACCOUNT}@%s IDENTIFIED BY %s", host, password)
                sql(f"GRANT ALL ON {name}.* TO {ACCOUNT}@%s", host)
            yield config | {"USER": ACCOUNT, "PASSWORD": password}
        finally:
            self._forget_account()

    def _forget_account(self) -> None:
        for host in self.hosts:
            sql(f"DROP USER IF EXISTS {ACCOUNT}@%s", host)

    def read_only(self, on: bool) -> None:
        sql("SET GLOBAL read_only = %s", int(on))


class PostgreSQLFaults(ServerFaults):
    clients = (
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
        "AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )
    drop = "SELECT pg_terminate_backend(%s)"
    snapshot = ("BEGIN ISOLATION LEVEL REPEATABLE READ",)

    def place(self, config: dict[str, Any]) -> str | tuple[str, int] | None:
        host, port = config["HOST"], int(config["PORT"] or 5432)
        if host.startswith("/"):
            return f"{host}/.s.PGSQL.{port}"
        return (host, port) if host else None

    def read_only(self, on: bool) -> None:
        """Of this database only, and of sessions that begin from now on: let all begin again."""
        name = here().ops.quote_name(str(here().settings_dict["NAME"]))
        sql("SET default_transaction_read_only = off")
        sql(f"ALTER DATABASE {name} SET default_transaction_read_only = {'on' if on else 'off'}")
        for (pid,) in rows(here(), self.clients, []):
            sql(self.drop, pid)


DATABASE_FAULTS: dict[type[Dialect], type[DatabaseFaults]] = {
    MySQL: MySQLFaults,
    PostgreSQL: PostgreSQLFaults,
}
