"""Servers of tubes as processes on the test database."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.kit.processes import QUICK, Process, running
from tests.kit.talker import Talker, talking
from tests.kit.waiting import wait_until

__all__ = ["Talker", "port_of", "serving", "talking"]
LISTENING = re.compile(r"listening on 127\.0\.0\.1:(\d+)")


@contextmanager
def serving(database_url: str, *args: str, **environment: Any) -> Iterator[tuple[Process, int]]:
    """A server, and the port that it listens on."""
    listen = ("runbeanstalkd", "--listen", "127.0.0.1:0", *args)
    with running(database_url, *listen, **(QUICK | environment)) as process:
        yield process, port_of(process)


def port_of(process: Process) -> int:
    """Wait until it listens; fail loudly where it has ended."""

    def listens() -> Any:
        assert process.popen.poll() is None, process.stderr
        return LISTENING.search(process.stderr)

    return int(wait_until(listens)[1])
