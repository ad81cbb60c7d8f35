"""Histories in files: whole whatever is killed, and in the order of time."""

import json
import os
import signal
import threading

import pytest

from django_dbqueue.torture.history import BrokenHistory, History, read
from tests.kit.waiting import wait_until


def test_what_was_written_is_read(tmp_path):
    History(tmp_path, "worker-1").write("start", "invoke", key=1, mark="ä\n", owner="a.1")
    [event] = read(tmp_path)
    assert event.pop("t") > 0
    assert event == {
        "pid": os.getpid(),
        "who": "worker-1",
        "op": "start",
        "type": "invoke",
        "key": 1,
        "mark": "ä\n",
        "owner": "a.1",
    }


def test_all_files_come_in_the_order_of_time(tmp_path):
    first, second = History(tmp_path, "a"), History(tmp_path, "b")
    for number in range(10):
        (first, second)[number % 2].write("heal", "info", number=number)
    assert [event["number"] for event in read(tmp_path)] == [*range(10)]


def test_a_forked_process_has_a_file_of_its_own(tmp_path):
    history = History(tmp_path, "worker")
    history.write("heal", "info")
    pid = os.fork()
    if not pid:
        history.write("heal", "info")
        os._exit(0)
    os.waitpid(pid, 0)
    assert [event["pid"] for event in read(tmp_path)] == [os.getpid(), pid]
    assert len([*tmp_path.iterdir()]) == 2


def test_threads_do_not_mix_their_lines(tmp_path):
    history = History(tmp_path, "worker")

    def write():
        for _ in range(200):
            history.write("heal", "info", padding="x" * 2000)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read(tmp_path)) == 800
    assert len([*tmp_path.iterdir()]) == 1


def test_a_kill_costs_the_last_line_at_most(tmp_path):
    pid = os.fork()
    if not pid:
        history = History(tmp_path, "worker")
        for number in range(10_000_000):
            history.write("heal", "info", number=number)
        os._exit(1)
    wait_until(lambda: len(read(tmp_path)) > 100)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    numbers = [event["number"] for event in read(tmp_path)]
    assert numbers == [*range(len(numbers))]


def test_a_torn_last_line_is_dropped(tmp_path):
    history = History(tmp_path, "worker")
    history.write("heal", "info")
    [path] = tmp_path.iterdir()
    path.write_bytes(path.read_bytes() + b'{"t": 17, "pid"')
    assert len(read(tmp_path)) == 1


@pytest.mark.parametrize("line", [b'{"t": 1, "pi', b"[]", b'{"t": 1}', b"\xff"])
def test_a_line_torn_in_the_middle_is_named(tmp_path, line):
    whole = json.dumps({"t": 1, "pid": 1, "who": "a", "op": "heal", "type": "info"}).encode()
    (tmp_path / "a-1.jsonl").write_bytes(b"\n".join([whole, line, whole, b""]))
    with pytest.raises(BrokenHistory, match=r"a-1\.jsonl:2"):
        read(tmp_path)


def test_an_event_that_is_too_long_is_refused(tmp_path):
    history = History(tmp_path, "worker")
    with pytest.raises(ValueError, match="the limit is 4096"):
        history.write("heal", "info", padding="x" * 5000)
    assert read(tmp_path) == []
