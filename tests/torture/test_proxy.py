"""The proxy that makes a database silent: what each fault does to a connection."""

import socket
import threading

import pytest

from django_dbqueue.torture.proxy import Proxy, Way

pytestmark = pytest.mark.any_database


@pytest.fixture
def proxy():
    """In front of a server that answers what it hears, twice."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, args=[server], daemon=True).start()
        with Proxy(server.getsockname()[:2]) as proxy:
            yield proxy


def serve(server):
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=answer, args=[connection], daemon=True).start()


def answer(connection):
    with connection:
        while heard := connection.recv(100):
            connection.sendall(heard * 2)


def connect(proxy):
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=10)


def ask(client, seconds=10.0):
    """The whole answer, or what came before the end; None when nothing comes."""
    client.settimeout(seconds)
    heard = b""
    try:
        client.sendall(b"hello")
        while len(heard) < 10 and (more := client.recv(100)):
            heard += more
    except TimeoutError:
        return None
    except ConnectionError:
        return heard + b"!"
    return heard


def test_all_passes_while_all_is_well(proxy):
    with connect(proxy) as client:
        assert ask(client) == ask(client) == b"hellohello"


@pytest.mark.parametrize("way", [Way.SWALLOW, Way.MUTE, Way.HALF_OPEN])
def test_a_connection_goes_silent_and_stays_so_while_new_ones_work_again(proxy, way):
    with connect(proxy) as client:
        assert ask(client)
        proxy.be(way)
        assert ask(client, 0.2) is None
        with connect(proxy) as late:
            assert ask(late, 0.2) is None
        proxy.be(Way.PASS)
        assert ask(client, 0.2) is None
        with connect(proxy) as later:
            assert ask(later) == b"hellohello"


def test_an_answer_is_cut_in_its_middle(proxy):
    with connect(proxy) as client:
        assert ask(client)
        proxy.be(Way.CUT, arrives=3)
        # A reset may overtake what was sent before it, or be read as the end.
        assert ask(client) in {b"hel!", b"hel", b"!"}


def test_an_answer_comes_late(proxy):
    with connect(proxy) as client:
        proxy.be(Way.DELAY, seconds=0.3)
        assert ask(client, 0.3) is None
        proxy.be(Way.PASS)
        client.settimeout(10)
        assert client.recv(100) == b"hellohello"


def test_nobody_listens_and_then_somebody_does_again(proxy):
    with connect(proxy) as client:
        assert ask(client)
        proxy.be(Way.REFUSE)
        assert ask(client) in {b"", b"!"}
        with pytest.raises(ConnectionRefusedError):
            connect(proxy)
        proxy.be(Way.PASS)
        with connect(proxy) as later:
            assert ask(later) == b"hellohello"
