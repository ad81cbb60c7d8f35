"""Connections to a server of tubes that are made otherwise than a client does by itself."""

import socket
import ssl
from contextlib import closing

from tests.kit.beanstalk_server import Talker

PATIENCE_SECONDS = 30.0  # for what has to come, on a busy machine


class TalkerOver(Talker):
    """A client over a connection that is there."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._file = connection.makefile("rb")


def talking_over(connection: socket.socket) -> closing[TalkerOver]:
    return closing(TalkerOver(connection))


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)


def over_tls(port: int, context: ssl.SSLContext) -> ssl.SSLSocket:
    return context.wrap_socket(connected(port), server_hostname="127.0.0.1")


def rest_of(connection: socket.socket) -> bytes:
    """What it is sent up to its end; a reset is an end, too."""
    found = b""
    try:
        while data := connection.recv(65536):
            found += data
    except (ConnectionError, ssl.SSLError):
        pass
    return found
