"""What a supervisor and an agent tell each other: neither ever waits for the other."""

import pickle  # nosec B403
import socket
from collections.abc import Iterator
from typing import Any

from .signalling import wait_readable

HEAD = 4  # bytes that tell how long a message is
CHUNK = 65_536  # bytes


class Channel:
    """One end of a pair of sockets, for messages of any size; what cannot be sent yet is kept."""

    def __init__(self, end: socket.socket) -> None:
        end.settimeout(0)
        self._end = end
        self._unsent = b""
        self._unread = b""
        # The other process is gone.
        self.is_closed = False

    @property
    def descriptor(self) -> int:
        """Readable when something has arrived, or the other process is gone."""
        return self._end.fileno()

    def send(self, message: object) -> None:
        body = pickle.dumps(message)
        self._unsent += len(body).to_bytes(HEAD) + body
        self.flush()

    def flush(self) -> None:
        """Send what could not be sent before, as far as that is possible by now."""
        try:
            while self._unsent:
                self._unsent = self._unsent[self._end.send(self._unsent) :]
        except BlockingIOError:
            pass  # it has not read what was sent before
        except ConnectionError:
            self.is_closed = True

    def receive(self) -> list[Any]:
        """The messages that have arrived whole."""
        self._read()
        return list(self._messages())

    def _read(self) -> None:
        try:
            while data := self._end.recv(CHUNK):
                self._unread += data
            self.is_closed = True
        except BlockingIOError:
            pass  # that was all
        except ConnectionError:
            self.is_closed = True

    def _messages(self) -> Iterator[Any]:
        while len(self._unread) >= HEAD:
            end = HEAD + int.from_bytes(self._unread[:HEAD])
            if len(self._unread) < end:
                return
            body, self._unread = self._unread[HEAD:end], self._unread[end:]
            yield pickle.loads(body)  # noqa: S301  # nosec B301  # of our own process

    def wait(self, seconds: float) -> None:
        """Until something has arrived, or the time is over."""
        wait_readable([self.descriptor], seconds)

    def close(self) -> None:
        self._end.close()
