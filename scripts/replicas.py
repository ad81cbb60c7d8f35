"""Replicas of private servers: a standby of PostgreSQL, a replica of MariaDB by GTID.

A server that was killed comes back as a replica of the one that was promoted, with its data copied
again: what it alone had committed is gone, as after any failover. Standard library only.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

from database_servers import DATABASE, Failure, PostgreSQL, binary, wait_for
from mysql_servers import MariaDB

CATCH_UP_SECONDS = 60.0


class PostgreSQLNode(PostgreSQL):
    """One of two that take turns as primary and standby."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        folders = [str(Path(self.binaries["initdb"]).parent)]
        self.basebackup = binary("pg_basebackup", self.package, folders)
        self.psql = binary("psql", "postgresql-client", folders)

    def sql(self, statement: str) -> str:
        """Run it; the first column of its first row."""
        command = [self.psql, f"--host={self.folder}", "--username=postgres", "-XqAt"]
        return answer([*command, "-v", "ON_ERROR_STOP=1", "-c", statement, DATABASE])

    def become_standby_of(self, primary: PostgreSQLNode, synchronous: bool) -> None:
        """With a copy of its data; returns once it streams."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.account is not None:
            shutil.chown(self.folder, self.account)
        shutil.rmtree(self.data, ignore_errors=True)
        copy = [self.basebackup, f"--host={primary.folder}", "--username=postgres"]
        self.call(*copy, f"--pgdata={self.data}", "--checkpoint=fast", "--no-sync", "-R")
        self.start()
        primary.wait_for_standbys(synchronous=synchronous)
        is_there = "SELECT COUNT(*) FROM pg_stat_replication WHERE state = 'streaming'"
        wait(lambda: primary.sql(is_there) == "1", "the standby does not stream")

    def wait_for_standbys(self, *, synchronous: bool) -> None:
        """From here on each commit does, or none."""
        self.sql(f"ALTER SYSTEM SET synchronous_standby_names = '{'*' if synchronous else ''}'")
        self.sql("SELECT pg_reload_conf()")

    def lag_behind(self, primary: PostgreSQLNode) -> None:
        """From here on nothing that is committed there arrives, until it is promoted."""
        os.kill(int(primary.sql("SELECT pid FROM pg_stat_replication")), signal.SIGSTOP)

    def promote(self) -> None:
        """Returns once it takes writes; nobody stands by."""
        self.wait_for_standbys(synchronous=False)
        self.sql("SELECT pg_promote()")
        wait(lambda: self.sql("SELECT pg_is_in_recovery()") == "f", "it is not promoted")


class MariaDBNode(MariaDB):
    """The same with MariaDB, by GTID; semi-synchronous where that is asked for."""

    def __init__(self, folder: Path, number: int, template: Path) -> None:
        """``template``: where the data of an empty server is kept, made by the first one."""
        super().__init__(folder)
        self.number = number
        self.template = template
        self.port = free_port()
        self.dump = binary("mariadb-dump", "mariadb-client")

    def command(self) -> list[str]:
        given = [one for one in super().command() if one != "--skip-networking"]
        return [
            *given,
            # A replica asks by TCP alone.
            "--bind-address=127.0.0.1",
            f"--port={self.port}",
            f"--server-id={self.number}",
            "--log-bin=binlog",
            "--log-slave-updates",
            "--gtid-strict-mode=ON",
            "--sync-binlog=1",
            "--innodb-log-file-size=16M",
            "--rpl-semi-sync-master-wait-point=AFTER_SYNC",
            # Until somebody has it, no commit is confirmed, however long that takes.
            f"--rpl-semi-sync-master-timeout={3_600_000}",
        ]

    def initialise(self) -> None:
        if not self.template.exists():
            super().initialise()
            shutil.copytree(self.data, self.template)
        else:
            shutil.copytree(self.template, self.data)

    def create_database(self) -> None:
        super().create_database()
        self.sql("CREATE USER replica@'%'; GRANT REPLICATION SLAVE ON *.* TO replica@'%'")

    def sql(self, statement: str) -> str:
        return answer([*self.connect(self.client), "-N", "-e", statement])

    def connect(self, program: str) -> list[str]:
        return [program, "--no-defaults", f"--socket={self.socket}", "--user=root"]

    def become_standby_of(self, primary: MariaDBNode, synchronous: bool) -> None:
        """With a copy of its data, on an empty server; returns once it replicates."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.start()
        self.sql("SET GLOBAL read_only = 1; RESET MASTER")
        self.copy(primary)
        self.sql(
            f"SET GLOBAL rpl_semi_sync_slave_enabled = {synchronous:d}; "
            f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {primary.port}, "
            "MASTER_USER = 'replica', MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1; "
            "START SLAVE"
        )
        wait(lambda: self.status("Slave_IO_Running") == ["Yes"], "the replica does not replicate")
        primary.wait_for_standbys(synchronous=synchronous)

    def copy(self, primary: MariaDBNode) -> None:
        dump = [*primary.connect(self.dump), "--single-transaction", "--master-data=1", "--gtid"]
        load = [*self.connect(self.client), "--init-command=SET sql_log_bin = 0"]
        with subprocess.Popen([*dump, "--databases", DATABASE], stdout=subprocess.PIPE) as source:
            loaded = subprocess.run(load, stdin=source.stdout, check=False)
        if loaded.returncode or source.returncode:
            raise Failure("the primary's data cannot be copied")

    def wait_for_standbys(self, *, synchronous: bool) -> None:
        """From here on each commit does, or none."""
        self.sql(f"SET GLOBAL rpl_semi_sync_master_enabled = {synchronous:d}")

    def lag_behind(self, _: MariaDBNode) -> None:
        """From here on nothing that is committed there arrives."""
        self.sql("STOP SLAVE IO_THREAD")

    def promote(self) -> None:
        """Returns once it takes writes: what it has received is applied first."""
        self.sql("STOP SLAVE IO_THREAD")
        wait(self.has_applied_all, "the replica does not catch up")
        self.sql("STOP SLAVE; RESET SLAVE ALL")
        self.sql("SET GLOBAL rpl_semi_sync_master_enabled = 0; SET GLOBAL read_only = 0")

    def has_applied_all(self) -> bool:
        read = self.status("Master_Log_File", "Read_Master_Log_Pos")
        return read == self.status("Relay_Master_Log_File", "Exec_Master_Log_Pos")

    def status(self, *names: str) -> list[str | None]:
        lines = answer([*self.connect(self.client), "-e", "SHOW SLAVE STATUS\\G"]).splitlines()
        found = dict(line.lstrip().split(": ", 1) for line in lines if ": " in line)
        return [found.get(name) for name in names]


def answer(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failure(f"{command[-1]}: {done.stderr.strip()}")
    return done.stdout.strip()


def wait(condition: Callable[[], bool], complaint: str) -> None:
    if not wait_for(condition, CATCH_UP_SECONDS):
        raise Failure(complaint)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
