"""The demo, as a user runs it."""

import dataclasses
import os
import re
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from django.db import connection

from testproject.demo.account import Account
from testproject.shop.models import Order
from tests.kit.processes import ROOT
from tests.kit.waiting import wait_until

MESSAGES = 120
REFUSED, DEFERRED = 4, 12  # of 120, see testproject/demo/scenario.py


def command(*args):
    return [sys.executable, "-m", "testproject.demo", *args]


def demo(folder, *args, **variables):
    env = os.environ | {"DEMO_FOLDER": str(folder)} | variables
    return subprocess.run(
        command(*args), cwd=ROOT, env=env, capture_output=True, text=True, timeout=240, check=False
    )


def commands_of_processes():
    """The environments of all processes that run here, where the system shows them."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            yield path.read_bytes()
        except OSError:
            continue


def numbers(line_title, text):
    """The numbers of the summary's line with that title, without its remark."""
    table = text.rpartition("mail server\n")[2]
    [line] = re.findall(rf"^  {line_title} +(.*)$", table, re.MULTILINE)
    columns = re.split(r"  +", line.strip())
    return [int(column.replace(",", "")) for column in columns if re.fullmatch(r"[\d,]+", column)]


# --- the sums -----------------------------------------------------------------------------------

TAKEN = {"<1>": 2, "<2>": 1, "<3>": 1, "<4>": 1, "<5>": 1}
GOOD = Account(
    committed=6,
    rolled_back=2,
    to_be_deferred=2,
    to_be_refused=1,
    thumbnails_wanted=3,
    rows=6,
    rolled_back_rows=0,
    sent_ids={"<1>", "<2>", "<3>", "<4>", "<5>"},
    failed={"gone@x"},
    retried={"busy@x"},
    thumbnails_made=3,
    taken=TAKEN,
    taken_from={"one@x", "two@x", "three@x", "busy@x", "cut@x"},
    deferred={"busy@x", "cut@x"},
    refused={"gone@x"},
    rolled_back_taken=0,
    in_hand={"<1>": "one@x", "<5>": "cut@x"},
    runner_threads=2,
    exit_code=0,
    workers_left=0,
)


def test_good_sums_add_up():
    assert GOOD.problems() == []
    assert GOOD.extra == 1
    assert GOOD.unnoted == {"cut@x"}


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"rows": 5}, "6 orders were committed, but 5 messages are queued"),
        ({"failed": set()}, "6 messages, but 5 sent and 0 failed"),
        ({"rolled_back_rows": 1}, "1 messages of rolled back orders are in the queue"),
        ({"rolled_back_taken": 1}, "1 messages of rolled back orders arrived"),
        ({"thumbnails_made": 2}, "2 of 3 thumbnails"),
        ({"taken": {"<1>": 1}}, "4 messages are marked as sent, but never arrived: <2>, <3>"),
        ({"taken": TAKEN | {"<9>": 1}}, "1 messages arrived that are not marked as sent: <9>"),
        ({"refused": {"other@x"}}, "1 messages were to be refused"),
        ({"to_be_refused": 2}, "2 messages were to be refused"),
        ({"to_be_deferred": 3}, "3 were to be deferred, 2 were"),
        ({"taken_from": {"one@x"}}, "2 deferred messages never came again: busy@x, cut@x"),
        ({"retried": {"busy@x", "one@x"}}, "nobody deferred: one@x"),
        ({"taken": TAKEN | {"<1>": 4}}, "3 duplicates for 2 killed runner threads"),
        ({"taken": TAKEN | {"<2>": 2}}, "1 duplicates that the killed worker never had: <2>"),
        ({"retried": set()}, "2 deferrals are not on record"),
        ({"exit_code": 1}, "exit code 1"),
        ({"workers_left": 1}, "1 workers are still registered"),
    ],
)
def test_each_sum_that_is_wrong_is_told(wrong, told):
    problems = dataclasses.replace(GOOD, **wrong).problems()
    assert any(told in problem for problem in problems), problems


# --- for real -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def done(folder):
    return demo(folder, "--messages", str(MESSAGES))


@pytest.mark.process
def test_the_demo_adds_up(done):
    text = done.stdout
    assert done.returncode == 0, done.stdout + done.stderr
    assert "It adds up." in text
    assert numbers("enqueued", text)[-1:] == [MESSAGES]
    assert numbers("sent", text) == [MESSAGES - REFUSED] * 2
    assert numbers("failed", text) == [REFUSED] * 2
    assert numbers("rolled back", text)[-2:] == [0, 0]
    assert numbers("thumbnails", text) == [20]
    in_database, at_server = numbers("retried", text)
    assert DEFERRED - 4 <= in_database <= at_server == DEFERRED
    [duplicates] = numbers("duplicates", text)
    assert duplicates <= 4
    assert re.search(r"worker \d \(pid \d+\) killed .*: \d+ jobs in hand", text)
    assert "\x1b" not in text


@pytest.mark.process
def test_the_admin_shows_what_the_demo_has_left(done, folder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = demo(folder, "admin", "--port", str(port))
    assert refused.returncode == 1
    assert f"Port {port} of 127.0.0.1 cannot be had" in refused.stderr
    server = subprocess.Popen(
        command("admin", "--port", str(port)),
        cwd=ROOT,
        env=os.environ | {"DEMO_FOLDER": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        said = [server.stdout.readline() for _ in range(2)][1]
        url, _, password = re.fullmatch(r"  (\S+)   user (\w+)   password (\S+)\n", said).groups()
        assert len(password) == 12
        page = wait_until(lambda: fetch(url))
        assert b"Django administration" in page
        assert demo(folder, "--messages", "50").returncode == 1  # it would delete the database
    finally:
        server.terminate()
        server.communicate(timeout=20)


def fetch(url):
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.read()
    except OSError:
        return b""


@pytest.mark.process
def test_a_demo_that_hangs_says_what_hangs_and_leaves_no_process(tmp_path):
    late = demo(tmp_path, "--messages", "50", "--deadline", "3")
    assert late.returncode == 1
    assert "FAILED: not all is settled after 3 s:" in late.stderr
    assert re.search(r"email \d+: (ready|claimed|delayed), owner", late.stderr)
    ours = os.fsencode(tmp_path)
    # Sooner than workers leave whose supervisor is gone.
    wait_until(lambda: not any(ours in env for env in commands_of_processes()), seconds=8)


@pytest.mark.process
@pytest.mark.each_database
@pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite has no server")
def test_on_a_server_that_is_named_the_demo_makes_a_database_of_its_own(
    db_rows, database_url, tmp_path
):
    name = f"test_{connection.settings_dict['NAME']}_demo"
    with connection._nodb_cursor() as cursor:  # as an earlier demo has left it
        cursor.execute(f"CREATE DATABASE {name}")
    try:
        done = demo(tmp_path, "--messages", "50", DATABASE_URL=database_url)
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"  database     {name}, {connection.display_name}, migrated" in done.stdout
    finally:
        with connection._nodb_cursor() as cursor:
            cursor.execute(f"DROP DATABASE {name}")
    assert not Order.objects.exists()


@pytest.mark.process
def test_a_server_that_is_away_is_named_by_the_demo_without_a_traceback(tmp_path):
    away = demo(tmp_path, DATABASE_URL=f"postgresql://demo@%2F{tmp_path.name}/shop")
    assert away.returncode == 1
    assert "FAILED: the database cannot be had:" in away.stderr
    assert "Traceback" not in away.stderr


@pytest.mark.process
def test_the_admin_asks_for_the_demo_first(tmp_path):
    refused = demo(tmp_path, "admin")
    assert refused.returncode == 1
    assert "make demo" in refused.stderr
