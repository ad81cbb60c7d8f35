"""A mail server that takes everything at once and only counts: plain sockets, one process.

    python -m benchmarks.mail_sink

Prints its port. ``XSTAT`` answers with a line of JSON, ``XRESET MS`` begins to count again, and
takes so many milliseconds for each message from then on.
"""

import json
import re
import socketserver
import threading
import time
from dataclasses import dataclass, field

ANSWERS = {b"DATA": b"354 go on\r\n", b"QUIT": b"221 bye\r\n"}
MESSAGE_ID = re.compile(rb"(?mi)^message-id:\s*(\S+)")


@dataclass
class Counter:
    messages: int = 0
    first: float = 0.0
    last: float = 0.0
    ids: set[bytes] = field(default_factory=set)

    def take(self, message: bytes) -> None:
        self.last = time.time()
        self.first = self.first or self.last
        self.messages += 1
        found = MESSAGE_ID.search(message)
        self.ids.add(found[1] if found else b"")

    def told(self) -> bytes:
        facts = {"messages": self.messages, "first": self.first, "last": self.last}
        return json.dumps(facts | {"distinct": len(self.ids)}).encode() + b"\r\n"


class Sink(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 100

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Conversation)
        self.lock = threading.Lock()
        self.counter = Counter()
        self.seconds = 0.0  # for a message


class Conversation(socketserver.StreamRequestHandler):
    server: Sink
    disable_nagle_algorithm = True

    def handle(self) -> None:
        self.wfile.write(b"220 sink\r\n")
        while line := self.rfile.readline():
            word = line.strip().upper()[:6]
            self.wfile.write(self.control(word, line) or ANSWERS.get(word, b"250 ok\r\n"))
            if word == b"QUIT":
                return
            if word == b"DATA":
                self.take()

    def control(self, word: bytes, line: bytes) -> bytes | None:
        if word == b"XSTAT":
            return self.server.counter.told()
        if word == b"XRESET":
            self.server.counter = Counter()
            self.server.seconds = int(line.split()[1]) / 1000
        return None

    def take(self) -> None:
        lines = []
        while (line := self.rfile.readline()) not in {b".\r\n", b""}:
            lines.append(line)
        with self.server.lock:
            self.server.counter.take(b"".join(lines))
        if self.server.seconds:
            time.sleep(self.server.seconds)
        self.wfile.write(b"250 taken\r\n")


if __name__ == "__main__":
    with Sink() as sink:
        print(sink.server_address[1], flush=True)
        sink.serve_forever()
