"""MariaDB, as Debian installs it, and MySQL, unpacked from Debian's unstable packages.

Standard library only: this runs before there is any virtual environment.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from database_servers import DATABASE, Failure, Server, binary

# Where scripts/fetch_mysql.sh unpacks it, with all libraries that it needs.
UNPACKED = Path(__file__).resolve().parent.parent / "build" / "mysql"


class MariaDB(Server):
    name = "mariadb"
    url_variable = "DBQUEUE_MARIADB_URL"
    package = "mariadb-server"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.socket = self.folder / "server.sock"
        self.as_root = ["--user=root"] if os.geteuid() == 0 else []
        self.find_server()
        self.client = binary("mariadb", "mariadb-client")
        self.admin = binary("mariadb-admin", "mariadb-client")

    def find_server(self) -> None:
        self.server = [binary("mariadbd", self.package)]
        self.install = binary("mariadb-install-db", self.package)

    def url(self) -> str:
        return f"mysql://root@localhost/{DATABASE}?unix_socket={quote(str(self.socket))}"

    def initialise(self) -> None:
        self.call(
            self.install,
            "--no-defaults",
            f"--datadir={self.data}",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            *self.as_root,
        )

    def command(self) -> list[str]:
        return [
            *self.server,
            "--no-defaults",
            f"--datadir={self.data}",
            # A server that starts deletes the temporary tables that it finds there.
            f"--tmpdir={self.folder}",
            f"--socket={self.socket}",
            "--skip-networking",
            "--character-set-server=utf8mb4",
            "--innodb-buffer-pool-size=128M",
            "--max-connections=300",
            *self.as_root,
        ]

    def ping(self) -> list[str]:
        return [self.admin, "--no-defaults", f"--socket={self.socket}", "--user=root", "ping"]

    def create_database(self) -> None:
        sql = f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4"
        self.call(self.client, "--no-defaults", f"--socket={self.socket}", "--user=root", "-e", sql)


class MySQL(MariaDB):
    """Reached with MariaDB's client, which speaks to both."""

    name = "mysql"
    url_variable = "DBQUEUE_MYSQL_URL"
    is_default = False

    def find_server(self) -> None:
        loaders = [*UNPACKED.glob("usr/lib*/ld-linux*.so*"), *UNPACKED.glob("usr/lib/*/ld-linux*")]
        if not loaders:
            raise Failure(f"no MySQL in {UNPACKED}: run `make mysql`")
        libraries = ":".join(map(str, UNPACKED.glob("usr/lib/*-linux-gnu*")))
        # By its own loader, for its C library is newer than the system's.
        loader = [str(loaders[0]), "--library-path", libraries]
        self.server = [*loader, str(UNPACKED / "usr/sbin/mysqld")]

    def initialise(self) -> None:
        self.call(*self.command(), "--initialize-insecure")

    def command(self) -> list[str]:
        own = [f"--basedir={UNPACKED / 'usr'}", "--mysqlx=OFF", "--secure-file-priv="]
        return [*super().command(), *own]
