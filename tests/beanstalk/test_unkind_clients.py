"""Clients that are slow, silent, half-open, or talk nonsense."""

import random
import socket
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks import unkind as proof
from tests.kit.beanstalk_server import serving, talking
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.usefixtures("db_rows")
UNKIND = 500
MEMORY_MAX = 100 * 2**20
WORDS = (
    *(b"put", b"put 0 0 60 5", b"use x", b"use", b"peek 1", b"reserve-with-timeout 0", b"delete 1"),
    *(b"kick 5", b"stats", b"stats-tube x", b"\xff" * 40, b"", b"x" * 300, b"release 1 2 3"),
    *(
        b"list-tubes",
        b"a\0b",
        b"watch y",
        b"ignore y",
        b"touch 18446744073709551615",
        b"put 0 0 0 0",
    ),
)
ENDS = b"\r\n", b" 7\r\n", b" x\r\n", b"\n"


def resident(pid):
    """Bytes."""
    [line] = [one for one in Path(f"/proc/{pid}/status").read_text().splitlines() if "VmRSS" in one]
    return int(line.split()[1]) * 1024


def unkind(port, number):
    """In turn: silent; in the middle of a body; half-closed; asks, and does not read; waits."""
    made = socket.create_connection(("127.0.0.1", port), timeout=30)
    kind = number % 5
    if kind == 1:
        made.sendall(b"put 0 0 60 65535\r\n" + b"x" * 60_000)
    elif kind == 2:
        made.sendall(b"reserve\r\n")
        made.shutdown(socket.SHUT_WR)
    elif kind == 3:
        made.sendall(b"list-tubes\r\n" * 1000)
    elif kind == 4:
        made.sendall(b"watch nothing\r\nignore default\r\nreserve\r\n")
    return made


def test_hundreds_of_slow_clients_hold_up_no_other_and_pin_no_memory(database_url):
    with serving(database_url) as (process, port), ExitStack() as stack:
        for number in range(UNKIND):
            stack.enter_context(unkind(port, number))
        with talking(port, "t") as talker:
            for _ in range(20):
                key = talker.put("x")
                assert talker.reserve()[0] == key
                assert talker.ask(f"delete {key}") == ["DELETED"]
        assert resident(process.pid) < MEMORY_MAX


def test_next_to_all_kinds_and_fuzzed_lines_a_good_client_loses_nothing(database_url):
    """As ``make unkind`` does, in short."""
    with serving(database_url) as (process, port):
        known = proof.keep(port)
        with proof.unkind("clients", port, "--count=120") as clients:
            assert clients.stdout.readline() == "ready\n"
            with proof.unkind("lines", port, "--lines=3000") as fuzzing:
                times = proof.measure(port, lambda: fuzzing.poll() is None)
                assert fuzzing.wait() == 0
        assert times
        assert proof.kept(port) == known
        assert 0 < proof.memory(process.pid) < MEMORY_MAX
        assert "Traceback" not in process.stderr


def test_lines_of_nonsense_leave_it_well(database_url):
    chance = random.Random(5)
    with serving(database_url) as (process, port):
        for _ in range(10):
            with socket.create_connection(("127.0.0.1", port), timeout=60) as noisy:
                lines = [chance.choice(WORDS) + chance.choice(ENDS) for _ in range(300)]
                noisy.sendall(b"".join(lines))
                noisy.shutdown(socket.SHUT_WR)
                while noisy.recv(65536):
                    pass
        with talking(port, "t") as talker:
            assert talker.ask("list-tube-used") == ["USING", "t"]
        assert resident(process.pid) < MEMORY_MAX
        assert "Traceback" not in process.stderr


def test_who_reads_no_answers_is_given_few(database_url):
    with serving(database_url) as (_, port), talking(port) as talker:
        greedy = socket.create_connection(("127.0.0.1", port), timeout=30)
        greedy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        told = threading.Thread(target=greedy.sendall, args=[b"stats\r\n" * 20_000], daemon=True)
        told.start()
        numbers = [0]

        def rests():
            numbers.append(int(talker.stats("stats")["cmd-stats"]))
            return numbers[-1] == numbers[-2] + 1

        for _ in range(5):
            wait_until(rests)
        assert numbers[-1] < 2000
        greedy.close()
