"""A Unix socket in place of a port: ``--listen unix:PATH``."""

import asyncio
import fcntl
import os
import signal
import socket
import stat
from contextlib import contextmanager

import greenstalk
import pytest

from django_dbqueue.beanstalk import listening as places
from django_dbqueue.beanstalk.listening import UnixAddress
from tests.beanstalk.conftest import SECRET
from tests.kit.processes import QUICK, running
from tests.kit.waiting import wait_until
from tests.kit.ways_to_tubes import PATIENCE_SECONDS, rest_of, talking_over

pytestmark = pytest.mark.usefixtures("db_rows")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tubes.sock"


@contextmanager
def listening(database_url, path, *args):
    listen = "runbeanstalkd", "--listen", f"unix:{path}", *args
    with running(database_url, *listen, **QUICK) as process:
        wait_until(lambda: f"listening on unix:{path}" in process.stderr)
        yield process


def reached(path):
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.settimeout(PATIENCE_SECONDS)
    made.connect(str(path))
    return made


def is_served(path):
    with talking_over(reached(path)) as talker:
        return talker.ask("list-tube-used") == ["USING", "default"]


def mode_of(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


def test_greenstalk_works_over_it_and_it_is_gone_after_a_stop(database_url, path):
    with listening(database_url, path, "--max-per-address", "1") as process:
        assert mode_of(path) == 0o600
        with greenstalk.Client(str(path), use="work", watch="work") as client:
            key = client.put("hello")
            with greenstalk.Client(str(path), watch="work") as other:
                assert other.reserve().id == key
            assert client.reserve().id == key
            client.delete(key)
        half = reached(path)
        half.sendall(b"list-tube-used\r\n")
        half.shutdown(socket.SHUT_WR)
        assert rest_of(half) == b"USING default\r\n"
        process.send(signal.SIGTERM)
        assert process.end() == 0
    assert not path.exists()


def test_a_secret_is_asked_for_there_too(database_url, path, with_secret):
    with listening(database_url, path, *with_secret) as process:
        with reached(path) as made:
            made.sendall(b"stats\r\n")
            assert rest_of(made) == b"DENIED\r\n"
        with talking_over(reached(path)) as talker:
            assert talker.ask(f"auth {SECRET}") == ["OK"]
        assert "a connection of this host is denied" in process.stderr


def test_its_mode_is_what_is_asked_for(database_url, path):
    with listening(database_url, path, "--socket-mode", "0666"):
        assert mode_of(path) == 0o666


def test_what_a_killed_server_left_is_replaced(database_url, path):
    with listening(database_url, path) as process:
        process.kill()
    assert path.exists()
    with listening(database_url, path):
        assert is_served(path)


def test_a_living_servers_is_left_to_it(database_url, path):
    with listening(database_url, path):
        with running(database_url, "runbeanstalkd", "--listen", f"unix:{path}") as second:
            assert second.end() == 1
            assert f"cannot listen on unix:{path}: another server listens there" in second.stderr
        assert is_served(path)


def test_a_file_that_is_no_socket_is_left_alone(database_url, path):
    path.write_text("precious")
    with running(database_url, "runbeanstalkd", "--listen", f"unix:{path}") as process:
        assert process.end() == 1
        assert "there is a file that is no socket" in process.stderr
    assert path.read_text() == "precious"


def test_a_folder_that_is_not_there_is_told(database_url, tmp_path):
    listen = f"unix:{tmp_path}/missing/tubes.sock"
    with running(database_url, "runbeanstalkd", "--listen", listen) as process:
        assert process.end() == 1
        assert f"cannot listen on {listen}: No such file or directory" in process.stderr


def test_a_server_that_stops_leaves_the_socket_of_the_next_one(path):
    """Its own was removed by hand meanwhile."""
    one, two = UnixAddress(str(path)), UnixAddress(str(path))
    with one._bind():
        path.unlink()
        with two._bind():
            one.leave()
            assert path.exists()
            two.leave()
            assert not path.exists()


def test_a_server_whose_queue_of_connections_is_full_is_alive(path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as busy:
        busy.bind(str(path))
        busy.listen(0)
        with reached(path), pytest.raises(OSError, match="another server listens there"):
            UnixAddress(str(path))._bind()


@pytest.mark.any_database
def test_a_folder_that_somebody_has_locked_is_told_and_no_stop_waits_for_it(tmp_path, monkeypatch):
    monkeypatch.setattr(places, "LOCK_PAUSE", 0.001)
    path = tmp_path / "tubes.sock"
    address = UnixAddress(str(path))

    async def listen():
        return await address.listen(asyncio.Protocol)

    async def start_and_stop():
        listener = await listen()
        with locked(tmp_path):
            address.leave()
            assert path.exists()
        address.leave()
        listener.close()

    with locked(tmp_path), pytest.raises(OSError, match="folder is locked"):
        asyncio.run(listen())
    asyncio.run(start_and_stop())
    assert not path.exists()


@contextmanager
def locked(folder):
    found = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(found, fcntl.LOCK_EX)
        yield
    finally:
        os.close(found)
