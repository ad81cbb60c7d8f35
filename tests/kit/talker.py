"""A client of a server of tubes, word for word."""

import socket
from contextlib import closing

ANSWER_SECONDS = 30.0  # for an answer that has to come, on a busy machine


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
