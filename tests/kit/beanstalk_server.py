"""Servers of tubes as processes on the test database, and clients that talk to them."""

import re
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from tests.kit.processes import QUICK, Process, running
from tests.kit.waiting import wait_until

LISTENING = re.compile(r"listening on 127\.0\.0\.1:(\d+)")
ANSWER_SECONDS = 30.0  # for an answer that has to come, on a busy machine


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


class Talker:
    """A client that says something, and takes the answer."""

    def __init__(self, port: int, tube: str = "") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS)
        self._file = self.socket.makefile("rb")
        if tube:
            self.ask(f"use {tube}")
            self.ask(f"watch {tube}")
            self.ask("ignore default")

    def __enter__(self) -> "Talker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()
        self.socket.close()

    def say(self, command: str) -> None:
        self.socket.sendall(command.encode() + b"\r\n")

    def hear(self) -> list[str]:
        """The words of the next answer; [] at the end."""
        return self._file.readline().decode().split()

    def ask(self, command: str) -> list[str]:
        self.say(command)
        return self.hear()

    def put(self, body: str = "", priority: int = 0, delay: int = 0, ttr: int = 60) -> int:
        word, key = self.ask(f"put {priority} {delay} {ttr} {len(body)}\r\n{body}")
        assert word == "INSERTED"
        return int(key)

    def job(self) -> tuple[int, str]:
        """Key and body of a job that is answered."""
        word, key, size = self.hear()
        assert word in {"RESERVED", "FOUND"}
        return int(key), self._file.read(int(size) + 2)[:-2].decode()

    def reserve(self) -> tuple[int, str]:
        self.say("reserve")
        return self.job()

    def stats(self, command: str) -> dict[str, str]:
        word, size = self.ask(command)
        assert word == "OK"
        text = self._file.read(int(size) + 2).decode()
        return dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)


def talking(port: int, tube: str = "") -> closing[Talker]:
    return closing(Talker(port, tube))
