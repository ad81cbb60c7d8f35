"""A large message on a slow line: sent while it moves on, given up where it does not."""

import smtplib
import socket
import threading
import time
from contextlib import suppress

import pytest

from django_dbqueue.mail.sending import connections
from tests.kit.mail import deliver_to, outcomes, sent, setting

pytestmark = [pytest.mark.usefixtures("db_rows", "own_connections"), pytest.mark.any_database]

SIZE = 1_000_000
BUFFER = 16 * 1024
FINAL_TIMEOUT = 20.0  # seconds


class SlowServer:
    """It takes no more than ``rate`` bytes of a message a second; at 0 it takes none."""

    def __init__(self, rate):
        self.rate, self.received = rate, 0
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen()
        self.port = self._socket.getsockname()[1]
        self._over = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self):
        self._over.set()
        self._socket.close()

    def _serve(self):
        peer, _ = self._socket.accept()
        with suppress(OSError), peer, peer.makefile("rb") as lines:
            peer.sendall(b"220 hello\r\n")
            while line := lines.readline():
                if line == b"data\r\n":
                    peer.sendall(b"354 go on\r\n")
                    self._take_message(peer)
                peer.sendall(b"250 ok\r\n")

    def _take_message(self, peer):
        end, since = b"", time.monotonic()
        while not end.endswith(b"\r\n.\r\n") and not self._over.is_set():
            early = self.received / self.rate - (time.monotonic() - since) if self.rate else 0.1
            if early > 0:
                self._over.wait(early)
            if self.rate:
                piece = peer.recv(BUFFER)
                self.received, end = self.received + len(piece), (end + piece)[-5:]


@pytest.fixture
def line_to(settings, monkeypatch):
    """A server at the other end of a line of so many bytes a second."""
    connect, servers = vars(smtplib.SMTP)["_get_socket"], []

    def connect_narrowly(*args):
        sock = connect(*args)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
        return sock

    def start(rate, timeout=0.3):
        servers.append(SlowServer(rate))
        deliver_to(settings, servers[0].port, MAIL_TIMEOUT=timeout)
        setting(settings, MAIL_FINAL_TIMEOUT=FINAL_TIMEOUT)
        return servers[0]

    monkeypatch.setattr(smtplib.SMTP, "_get_socket", connect_narrowly)
    monkeypatch.setattr(connections, "PART_BYTES", BUFFER)
    yield start
    for server in servers:
        server.close()


def large():
    return {"attachments": [("x.txt", "x" * 70 * (SIZE // 70), "text/plain")]}


def test_what_moves_on_is_sent_however_long_it_takes(line_to):
    timeout = 8.0  # no busy machine stands still for so long
    server, begun = line_to(SIZE / (1.1 * timeout), timeout), time.monotonic()
    assert outcomes(sent("anna", **large())) == {"anna": ("delivered", 250)}
    assert server.received > SIZE
    assert time.monotonic() - begun > timeout


def test_what_does_not_is_given_up_soon_and_nobody_may_have_it(line_to):
    line_to(0)
    begun = time.monotonic()
    assert outcomes(sent("anna", **large())) == {"anna": ("deferred", None)}
    assert time.monotonic() - begun < FINAL_TIMEOUT


def test_the_time_that_a_mail_may_take_ends_it(line_to, monkeypatch):
    server = line_to(100_000)
    monkeypatch.setattr("django_dbqueue.mail.sending.send.SPARE_SECONDS", 299)
    assert outcomes(sent("anna", **large())) == {"anna": ("deferred", None)}
    assert server.received < SIZE / 2
