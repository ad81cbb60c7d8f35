"""The test database behind a proxy that can make it silent."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from django.db import connection

from django_dbqueue.torture.proxy import Link, Proxy, Way

# As docs/deployment.md recommends.
RECOMMENDED = {
    "mysql": "?connect_timeout=2&read_timeout=30&write_timeout=10",
    "postgresql": "?connect_timeout=2&keepalives_idle=20&keepalives_interval=5"
    "&keepalives_count=3&tcp_user_timeout=30000",
}


class DeafLater(Link):
    """Hands on so many requests and their answers, and nothing after these."""

    hears = 0

    def _passes(self, *ways: Way) -> bool:
        self.hears -= ways == (Way.SWALLOW,)  # it is a request
        self.is_deaf = self.is_deaf or self.hears < 0
        return super()._passes(*ways)


@dataclass
class Proxied:
    """A proxy, and the address of the test database behind it."""

    proxy: Proxy
    url: str

    @property
    def recommended_url(self) -> str:
        return self.url + RECOMMENDED[connection.vendor]


@contextmanager
def proxied(name: str | None = None) -> Iterator[Proxied]:
    """``name``: of another database on the same server."""
    settings = connection.settings_dict
    with Proxy(_server(settings)) as proxy:
        scheme = {"mysql": "mysql", "postgresql": "postgresql"}[connection.vendor]
        account = quote(settings["USER"])
        if settings["PASSWORD"]:
            account += f":{quote(settings['PASSWORD'])}"
        yield Proxied(
            proxy, f"{scheme}://{account}@127.0.0.1:{proxy.port}/{name or settings['NAME']}"
        )


def _server(settings: dict[str, Any]) -> str | tuple[str, int]:
    """Where the server listens."""
    host, port = settings["HOST"], settings["PORT"]
    if path := settings["OPTIONS"].get("unix_socket"):
        return str(path)
    if host.startswith("/"):
        return f"{host}/.s.PGSQL.{port or 5432}"
    return host or "127.0.0.1", int(port or {"mysql": 3306, "postgresql": 5432}[connection.vendor])


def oldest(file: str, until: Callable[[], Any], seconds: float = 60) -> float:
    """The greatest age in seconds that a file had, until something holds."""
    found, deadline = 0.0, time.monotonic() + seconds
    while not until():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        if Path(file).exists():
            found = max(found, time.time() - Path(file).stat().st_mtime)
        time.sleep(0.05)
    return found
