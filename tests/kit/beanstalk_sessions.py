"""Scripted sessions with a beanstalkd, and what came back, but for ids and clocks."""

import asyncio
import re
from dataclasses import dataclass, field

QUIET_SECONDS = 0.4  # after which the reference has said all that it will
PATIENCE_SECONDS = 15.0  # for an answer that the reference gave
WITH_BODY = re.compile(rb"(?:RESERVED|FOUND) \d+ (\d+)|OK (\d+)")
CLOCKS = re.compile(rb"(age|time-left): -?\d+")
ID = rb"^(INSERTED |BURIED |RESERVED |FOUND |OK \d+\r\n---\nid: )%s\b"
INSERTED = re.compile(rb"(?:INSERTED|BURIED) (\d+)\r\n")


@dataclass
class Line:
    """One client's connection: the answers that it has got, whole ones."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    answers: list[bytes] = field(default_factory=list)
    has_ended: bool = False

    async def listen(self) -> None:
        try:
            while True:
                head = await self.reader.readuntil(b"\r\n")
                if found := WITH_BODY.match(head):
                    size = int(found[1] or found[2])
                    head += await self.reader.readexactly(size + 2)
                self.answers.append(head)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.has_ended = True
            self.answers.append(b"END")


class Session:
    """Up to three clients; a step is ``"1 reserve"``: the client and what it sends.

    ``|`` is an end of line, ``{1}`` the id of the first job that was put, ``{t}`` a tube's name
    that no other session has. Further steps: ``"1 close"``, ``"1 shut"`` (only its sending),
    ``"sleep 1.5"``.
    """

    def __init__(self, port: int, name: str) -> None:
        self.port = port
        self.tube = re.sub(r"\W", "-", name)[:150]
        self.lines: dict[str, Line] = {}
        self.tasks: list[asyncio.Task[None]] = []
        self.ids: list[bytes] = []

    async def line(self, number: str) -> Line:
        if number not in self.lines:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**22)
            self.lines[number] = line = Line(reader, writer)
            self.tasks.append(asyncio.create_task(line.listen()))
        return self.lines[number]

    async def run(
        self, steps: list[str], expected: list[dict[str, int]] | None = None
    ) -> list[dict[str, list[bytes]]]:
        """After each step the answers of each client so far; as many as ``expected`` are waited
        for, or what comes until all is quiet."""
        found: list[dict[str, list[bytes]]] = []
        try:
            for position, step in enumerate(steps):
                await self._do(step)
                await self._settle(None if expected is None else expected[position])
                self._note_ids()
                found.append(self._heard())
        finally:
            for task in self.tasks:
                task.cancel()
            for line in self.lines.values():
                line.writer.close()
        return found

    async def _do(self, step: str) -> None:
        number, _, text = step.partition(" ")
        if number == "sleep":
            await asyncio.sleep(float(text))
            return
        line = await self.line(number)
        if text == "close":
            line.writer.close()
        elif text == "shut":
            line.writer.write_eof()
        else:
            text = text.replace("{t}", self.tube).replace("|", "\r\n")
            data = (text + "\r\n").encode("latin-1")
            for place, key in enumerate(self.ids, 1):
                data = data.replace(b"{%d}" % place, key)
            line.writer.write(data)
            await line.writer.drain()

    async def _settle(self, expected: dict[str, int] | None) -> None:
        loop = asyncio.get_running_loop()
        if expected is not None:
            deadline = loop.time() + PATIENCE_SECONDS
            while self._counts() != expected and loop.time() < deadline:
                await asyncio.sleep(0.01)
            return
        quiet_since, before = loop.time(), self._counts()
        while loop.time() - quiet_since < QUIET_SECONDS:
            await asyncio.sleep(0.02)
            if (now := self._counts()) != before:
                quiet_since, before = loop.time(), now

    def _counts(self) -> dict[str, int]:
        return {number: len(line.answers) for number, line in self.lines.items()}

    def _note_ids(self) -> None:
        for line in self.lines.values():
            for answer in line.answers:
                if (found := INSERTED.fullmatch(answer)) and found[1] not in self.ids:
                    self.ids.append(found[1])

    def _heard(self) -> dict[str, list[bytes]]:
        return {
            number: [self._alike(answer) for answer in line.answers]
            for number, line in self.lines.items()
        }

    def _alike(self, answer: bytes) -> bytes:
        """Without what differs from server to server."""
        for place, key in enumerate(self.ids, 1):
            answer = re.sub(ID % key, rb"\g<1>{%d}" % place, answer)
        answer = re.sub(rb"^OK \d+", b"OK", answer)
        # 1.12 writes names bare.
        return CLOCKS.sub(rb"\1", answer).replace(b'"', b"")
