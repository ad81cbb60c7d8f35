"""Where the server listens: a TCP port, or a Unix socket."""

import asyncio
import errno
import fcntl
import ipaddress
import os
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .access import MakeProtocol

BACKLOG = 1024
UNIX = "unix:"
PATH_MAX = 107  # bytes of a Unix socket's path, on Linux
SOCKET_MODE = 0o600
LOCK_TRIES, LOCK_PAUSE = 40, 0.05  # of the folder; seconds
_nap = threading.Event()


class TCPAddress:
    """A host and a port, 0 = any that is free."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """Whether this host alone can reach it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    async def listen(self, make: MakeProtocol) -> asyncio.Server:
        """``OSError`` where it is taken."""
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(make, self.host, self.port, backlog=BACKLOG)
        self.port = int(listener.sockets[0].getsockname()[1])
        return listener

    def leave(self) -> None:
        """Nothing stays behind of a port."""


class UnixAddress:
    """A path, whose socket is there while the server runs."""

    is_local = True

    def __init__(self, path: str, mode: int = SOCKET_MODE) -> None:
        self.path = path
        self.mode = mode
        self._made: os.stat_result | None = None

    def __str__(self) -> str:
        return f"{UNIX}{self.path}"

    async def listen(self, make: MakeProtocol) -> asyncio.Server:
        """``OSError`` where a server listens there, or there is another kind of file."""
        with self._alone():
            bound = self._bind()
        return await asyncio.get_running_loop().create_unix_server(
            make, sock=bound, backlog=BACKLOG
        )

    def _bind(self) -> socket.socket:
        if is_abandoned(self.path):
            Path(self.path).unlink()
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)  # nobody else connects before it has its mode
        try:
            made.bind(self.path)
        except OSError:
            made.close()
            raise
        finally:
            os.umask(before)
        Path(self.path).chmod(self.mode)
        made.listen(BACKLOG)
        self._made = os.lstat(self.path)
        return made

    def leave(self) -> None:
        """Remove its socket, unless another server's is there, or somebody keeps the folder."""
        with suppress(OSError), self._alone():
            if self._made is not None and os.path.samestat(os.lstat(self.path), self._made):
                Path(self.path).unlink()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Of two servers that find an abandoned socket at once, one takes its place."""
        folder = os.open(Path(self.path).parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _lock(folder)
            yield
        finally:
            os.close(folder)


Address = TCPAddress | UnixAddress


def _lock(folder: int) -> None:
    """``OSError`` where somebody keeps it: a server holds it for a moment, and others may hold it
    for ever."""
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            _nap.wait(LOCK_PAUSE)
    raise OSError(errno.EAGAIN, "its folder is locked by another process")


def is_abandoned(path: str) -> bool:
    """Whether a socket is there to which nobody listens; ``OSError`` where somebody does, or it is
    no socket."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return False
    if not stat.S_ISSOCK(found.st_mode):
        raise FileExistsError(errno.EEXIST, "there is a file that is no socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(0)  # a full queue of connections is a living server's, too
        try:
            asking.connect(path)
        except ConnectionRefusedError:
            return True
        except BlockingIOError:
            pass
    raise OSError(errno.EADDRINUSE, "another server listens there")
