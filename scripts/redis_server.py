"""A Redis server of one's own, below a folder, on a unix socket only: for the benchmarks' peers.

Standard library only: this runs before there is any virtual environment.
"""

from __future__ import annotations

from pathlib import Path

from database_servers import Server, binary


class Redis(Server):
    name = "redis"
    url_variable = "DBQUEUE_REDIS_URL"
    package = "redis-server"
    is_default = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.socket = self.folder / "server.sock"
        self.server = binary("redis-server", self.package)
        self.client = binary("redis-cli", self.package)

    def url(self) -> str:
        return f"unix://{self.socket}"

    def initialise(self) -> None:
        self.data.mkdir()

    def command(self) -> list[str]:
        # Without a configuration file: snapshots as by default, no append-only file. The title
        # stays as it is, since a running server is known by its folder there.
        options = {"--port": "0", "--unixsocket": str(self.socket), "--dir": str(self.data)}
        words = [word for option in options.items() for word in option]
        return [self.server, *words, "--set-proc-title", "no"]

    def ping(self) -> list[str]:
        return [self.client, "-s", str(self.socket), "ping"]

    def create_database(self) -> None:
        pass
