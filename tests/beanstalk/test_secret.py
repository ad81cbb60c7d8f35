"""A shared secret: nobody gives a command without it."""

import signal
import socket
import time
from contextlib import ExitStack

import pytest

from django_dbqueue.beanstalk.access import LOG_LINES
from django_dbqueue.beanstalk.models import TubeJob
from tests.beanstalk.conftest import SECRET
from tests.kit.beanstalk_server import serving, talking
from tests.kit.waiting import wait_until
from tests.kit.ways_to_tubes import connected, rest_of, talking_over

pytestmark = pytest.mark.usefixtures("db_rows")
AUTH = f"auth {SECRET}"


def knows(port):
    """A connection that has said the secret."""
    made = connected(port)
    made.sendall(f"{AUTH}\r\n".encode())
    assert made.recv(4) == b"OK\r\n"
    return made


def test_what_comes_behind_the_secret_is_answered_in_its_order(database_url, with_secret):
    with serving(database_url, *with_secret) as (_, port):
        with talking(port) as talker:
            talker.say(f"{AUTH}\r\nput 0 0 60 1\r\nx\r\nuse t\r\nnonsense")
            assert talker.hear() == ["OK"]
            assert talker.hear()[0] == "INSERTED"
            assert talker.hear() == ["USING", "t"]
            assert talker.hear() == ["UNKNOWN_COMMAND"]
            assert talker.ask(AUTH) == ["UNKNOWN_COMMAND"]
        with connected(port) as half:
            half.sendall(f"{AUTH}\r\nlist-tube-used\r\n".encode())
            half.shutdown(socket.SHUT_WR)
            assert rest_of(half) == b"OK\r\nUSING default\r\n"


def test_a_secret_may_come_in_single_bytes(database_url, with_secret):
    with serving(database_url, *with_secret) as (_, port), talking(port) as talker:
        talker.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in f"{AUTH}\r\nlist-tube-used\r\n".encode():
            talker.socket.sendall(bytes([byte]))
        assert talker.hear() == ["OK"]
        assert talker.hear() == ["USING", "default"]


REFUSED = {
    "a wrong secret": b"auth c0rrect-horse-battery-stapler\r\n",
    "its beginning": f"{AUTH[:-1]}\r\n".encode(),
    "none": b"auth \r\n",
    "no argument": b"auth\r\n",
    "more behind it": f"{AUTH} \r\n".encode(),
    "more before it": f"auth  {SECRET}\r\n".encode(),
    "another case": f"AUTH {SECRET}\r\n".encode(),
    "half an end": f"{AUTH}\n\r\n".encode(),
    "a command": b"list-tubes\r\n",
    "an empty line": b"\r\n",
    "quit": b"quit\r\n",
    "a long line": b"auth " + b"x" * 300,
    "bytes": b"\x16\x03\x01\x02\x00\x01\x00",
    "a put, then the secret": b"put 0 0 60 1\r\nx\r\n" + f"{AUTH}\r\n".encode(),
    "a put of a large body": b"put 0 0 60 5000000\r\n" + b"x" * 5_000_000 + b"\r\n",
    "a wrong secret and a put": b"auth " + b"x" * 20 + b"\r\nput 0 0 60 1\r\nx\r\n",
}


def test_any_other_first_line_is_denied_and_the_end(database_url, with_secret):
    with serving(database_url, *with_secret) as (process, port):
        for name, said in REFUSED.items():
            with connected(port) as made:
                made.sendall(said)
                assert rest_of(made) == b"DENIED\r\n", name
        with talking_over(knows(port)) as talker:
            assert talker.stats("stats")["total-connections"] == "1"
        assert "a connection of 127.0.0.1 is denied: a wrong secret" in process.stderr
        assert SECRET not in process.stderr
    assert not TubeJob.objects.exists()


def test_without_the_option_auth_is_no_command(database_url):
    with serving(database_url) as (_, port), talking(port) as talker:
        assert talker.ask(AUTH) == ["UNKNOWN_COMMAND"]
        assert talker.ask("list-tube-used") == ["USING", "default"]


def test_who_does_not_say_it_in_time_is_closed(database_url, with_secret):
    patience = "--authentication-timeout", "0.5"
    with serving(database_url, *with_secret, *patience) as (process, port), ExitStack() as stack:
        talker = stack.enter_context(talking_over(knows(port)))
        silent, slow, denied = (stack.enter_context(connected(port)) for _ in range(3))
        slow.sendall(b"auth c0rr")
        denied.sendall(b"quit\r\n")
        assert rest_of(silent) == rest_of(slow) == b""
        assert rest_of(denied) == b"DENIED\r\n"
        assert talker.ask("list-tube-used") == ["USING", "default"]
        wait_until(lambda: "has not shown who it is within 0.5 s" in process.stderr)


def test_strangers_leave_room_for_those_who_know_the_secret(database_url, with_secret):
    """The oldest stranger makes room for a new one; who has said the secret is none."""
    limits = "--max-unauthenticated", "3", "--max-connections", "5"
    with serving(database_url, *with_secret, *limits) as (process, port), ExitStack() as stack:
        friends = [stack.enter_context(talking_over(knows(port))) for _ in range(4)]
        strangers = [stack.enter_context(connected(port)) for _ in range(20)]
        assert [rest_of(one) for one in strangers[:17]] == [b""] * 17
        friends.append(stack.enter_context(talking_over(knows(port))))
        for talker in friends:
            assert talker.ask("list-tube-used") == ["USING", "default"]
        # One of the last three made room for the last friend; two may say the secret still.
        assert rest_of(strangers[17]) == b""
        friends[0].close()
        for one in strangers[18:]:
            one.sendall(f"{AUTH}\r\n".encode())
            assert one.recv(4) == b"OK\r\n"
        assert "3 connections are unauthenticated" in process.stderr


def test_a_flood_of_denied_ones_does_not_flood_the_log(database_url, with_secret):
    with serving(database_url, *with_secret) as (process, port):
        began = time.monotonic()
        for _ in range(200):
            with connected(port) as made:
                made.sendall(b"quit\r\n")
                assert rest_of(made) == b"DENIED\r\n"
        lines = process.stderr.count("is denied")
        assert 1 <= lines <= (time.monotonic() - began + 2) * LOG_LINES
        wait_until(lambda: "others were denied before it" in denied_again(process, port))


def denied_again(process, port):
    with connected(port) as made:
        made.sendall(b"quit\r\n")
        assert rest_of(made) == b"DENIED\r\n"
    return process.stderr


def test_it_stops_at_once_though_strangers_are_there(database_url, with_secret):
    with serving(database_url, *with_secret) as (process, port), connected(port) as silent:
        with talking_over(knows(port)) as talker:
            assert talker.ask("list-tube-used") == ["USING", "default"]
            process.send(signal.SIGTERM)
            assert process.end() == 0
            assert rest_of(silent) == b""
        assert "Traceback" not in process.stderr
