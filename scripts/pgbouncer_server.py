"""PgBouncer before a private PostgreSQL, on a unix socket only.

Standard library only, as all servers of these scripts.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from database_servers import DATABASE, PostgreSQL, Server, binary

PORT = 6432  # the name of its socket has it
SERVERS_MAX = 6  # of PostgreSQL's sessions, for all clients
CONFIG = """
[databases]
* = host={upstream}
[pgbouncer]
pool_mode = {mode}
unix_socket_dir = {folder}
listen_port = {port}
auth_type = trust
auth_file = {data}/users
admin_users = postgres
default_pool_size = {servers}
max_client_conn = 500
ignore_startup_parameters = extra_float_digits
"""
USERS = ("postgres", "worker")


class PgBouncer(Server):
    """``mode``: "session" or "transaction"; ``servers``: the size of its pool."""

    name = "pgbouncer"

    def __init__(
        self, folder: Path, upstream: PostgreSQL, mode: str, servers: int = SERVERS_MAX
    ) -> None:
        super().__init__(folder)
        self.upstream = upstream
        self.mode = mode
        self.servers = servers
        # It refuses to run as root, like PostgreSQL.
        self.account = upstream.account
        self.program = binary("pgbouncer", "pgbouncer")

    def url(self) -> str:
        return f"postgresql://postgres@{quote(str(self.folder), safe='')}:{PORT}/{DATABASE}"

    def initialise(self) -> None:
        self.call("mkdir", str(self.data))
        (self.data / "users").write_text("".join(f'"{name}" ""\n' for name in USERS))
        self.config.write_text(
            CONFIG.format(
                upstream=self.upstream.folder,
                mode=self.mode,
                folder=self.folder,
                port=PORT,
                data=self.data,
                servers=self.servers,
            )
        )
        for path in (self.data / "users", self.config):
            path.chmod(0o644)

    @property
    def config(self) -> Path:
        return self.data / "pgbouncer.ini"

    def command(self) -> list[str]:
        return [self.program, str(self.config)]

    def ping(self) -> list[str]:
        ready = self.upstream.binaries["pg_isready"]
        return [ready, f"--host={self.folder}", f"--port={PORT}", "--dbname=postgres", "-q"]

    def create_database(self) -> None:
        """It has none of its own."""
