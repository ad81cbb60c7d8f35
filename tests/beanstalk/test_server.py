"""The server as a process, its clients over sockets."""

import os
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from django.db import connection

from django_dbqueue.beanstalk.models import TubeJob
from django_dbqueue.models import Worker
from django_dbqueue.monitor.worker_requests import (
    request_drain,
    request_restart,
    request_resume,
    request_stop,
)
from django_dbqueue.states import Status
from tests.kit.beanstalk_server import port_of, serving, talking
from tests.kit.processes import QUICK, running
from tests.kit.waiting import wait_until

pytest_plugins = "tests.kit.private_server"
pytestmark = pytest.mark.usefixtures("db_rows")
IS_SQLITE = "sqlite"


@pytest.fixture
def served(database_url):
    with serving(database_url) as (process, port):
        yield process, port


def test_a_hundred_idle_connections_time_out_all(served):
    _, port = served
    with ExitStack() as stack:
        talkers = [stack.enter_context(talking(port, "t")) for _ in range(100)]
        for talker in talkers:
            talker.put(ttr=1)
        for talker in talkers:
            talker.say("reserve")
        keys = {talker.job()[0] for talker in talkers}
        assert len(keys) == 100
        began = time.monotonic()
        with talking(port) as asking:
            while int(asking.stats("stats-tube t")["current-jobs-ready"]) < 100:
                assert time.monotonic() - began < 30
                time.sleep(0.02)
        # No job but one of a busy machine's takes longer than its ttr.
        assert time.monotonic() - began < 10
    assert set(TubeJob.objects.values_list("timeouts", flat=True)) == {1}


def test_what_a_killed_server_held_is_given_back(database_url):
    with serving(database_url) as (process, port), ExitStack() as stack:
        talkers = [stack.enter_context(talking(port, "t")) for _ in range(5)]
        keys = {talker.put(ttr=3600) for talker in talkers for _ in range(10)}
        held = {talker.reserve()[0] for talker in talkers for _ in range(10)}
        assert held == keys
        process.kill()
    with serving(database_url) as (_, port), talking(port, "t") as talker:
        assert {talker.reserve()[0] for _ in range(50)} == keys


def test_two_servers_give_no_job_to_two_clients(database_url):
    with serving(database_url) as (_, one), serving(database_url) as (_, two):
        with talking(one, "t") as talker:
            keys = [talker.put() for _ in range(100)]

        def work(port):
            with talking(port, "t") as talker:
                found = []
                while (answer := talker.ask("reserve-with-timeout 0"))[0] == "RESERVED":
                    talker._file.read(int(answer[2]) + 2)
                    assert talker.ask(f"delete {answer[1]}") == ["DELETED"]
                    found.append(int(answer[1]))
                return found

        with ThreadPoolExecutor(8) as pool:
            found = [key for part in pool.map(work, [one, two] * 4) for key in part]
    assert sorted(found) == keys


def somebody_waits(port):
    with talking(port, "t") as asking:
        return asking.stats("stats-tube t")["current-waiting"] == "1"


def test_a_put_at_one_server_wakes_who_waits_at_another(database_url):
    with ExitStack() as stack:
        one, two = (stack.enter_context(serving(database_url))[1] for _ in range(2))
        with talking(one, "t") as producer, talking(two, "t") as consumer:
            for number in range(5):
                consumer.say("reserve")
                wait_until(lambda: somebody_waits(two))
                key = producer.put(str(number))
                assert consumer.job() == (key, str(number))
                assert producer.ask(f"delete {key}") == ["NOT_FOUND"]
                assert consumer.ask(f"delete {key}") == ["DELETED"]


def test_who_waits_gets_what_django_enqueues(served):
    _, port = served
    with talking(port, "t") as talker:
        talker.say("reserve")
        wait_until(lambda: somebody_waits(port))
        made = TubeJob.objects.enqueue(queue="t", body=b"hello")
        assert talker.job() == (made.job.pk, "hello")


def test_the_end_of_a_connection_gives_back_what_it_holds(served):
    _, port = served
    with talking(port, "t") as waiting:
        with talking(port, "t") as talker:
            key = talker.put()
            assert talker.reserve()[0] == key
            waiting.say("reserve")
        assert waiting.job()[0] == key


def test_drained_no_job_comes_in_and_the_rest_goes_on(served):
    process, port = served
    with talking(port, "t") as talker:
        key = talker.put()
        process.send(signal.SIGUSR1)
        wait_until(lambda: talker.stats("stats")["draining"] == "true")
        assert talker.ask("put 0 0 60 1\r\nx") == ["DRAINING"]
        assert talker.reserve()[0] == key
        assert talker.ask(f"delete {key}") == ["DELETED"]


def test_a_put_counts_whatever_it_is_answered(served):
    process, port = served
    with talking(port) as talker, talking(port) as asking:
        for said, answer in (
            (b"put 0 0 60 1\r\nx\r\n", "INSERTED"),
            (b"put 0 0 60 1\r\nxyz", "EXPECTED_CRLF"),
            (b"put 0 0 60 65536\r\n" + b"x" * 65538, "JOB_TOO_BIG"),
            (b"put 0 0 60 x\r\n", "BAD_FORMAT"),
        ):
            talker.socket.sendall(said)
            assert talker.hear()[0] == answer
        process.send(signal.SIGUSR1)
        wait_until(lambda: asking.stats("stats")["draining"] == "true")
        assert talker.ask("put 0 0 60 1\r\nx") == ["DRAINING"]
        stats = asking.stats("stats")
    assert (stats["cmd-put"], stats["total-jobs"], stats["current-producers"]) == ("4", "1", "1")


def test_who_puts_in_vain_is_a_producer_but_for_what_is_too_big(served):
    _, port = served
    with talking(port) as one, talking(port) as two:
        one.socket.sendall(b"put 0 0 60 1\r\nxyz")
        assert one.hear() == ["EXPECTED_CRLF"]
        assert two.ask("put 0 0 60 65536\r\n" + "x" * 65536) == ["JOB_TOO_BIG"]
        assert two.stats("stats")["current-producers"] == "1"


def test_whose_reserve_comes_last_of_many_lines_and_an_end_is_answered(served):
    _, port = served
    with talking(port, "t") as talker:
        talker.socket.sendall(b"x\r\n" * 500 + b"reserve\r\n")
        talker.socket.shutdown(socket.SHUT_WR)
        assert {talker.hear()[0] for _ in range(500)} == {"UNKNOWN_COMMAND"}
        assert talker.hear() == ["TIMED_OUT"]
        assert talker.hear() == []


def test_told_to_stop_it_gives_back_what_clients_hold(served):
    process, port = served
    with talking(port, "t") as talker, talking(port, "t") as waiting:
        talker.put()
        talker.reserve()
        waiting.say("reserve")
        process.send(signal.SIGTERM)
        assert process.end() == 0
        assert waiting.hear() == []
    assert TubeJob.objects.get().status == Status.READY
    assert Worker.objects.get().stop_reason == "SIGTERM"


def test_it_ends_in_good_order_when_its_terminal_is_closed(database_url):
    terminal, its = os.openpty()
    name = os.ttyname(its)
    within = ["sh", "-c", f'exec "$@" <{name} >{name}', "sh"]
    with serving(database_url, within=within) as (process, port), talking(port, "t") as talker:
        talker.put(ttr=3600)
        talker.reserve()
        os.close(terminal)
        os.close(its)
        assert process.end() == 0
    job, worker = TubeJob.objects.get(), Worker.objects.get()
    assert (job.status, worker.stop_reason) == (Status.READY, "SIGHUP")


def test_it_outlives_its_terminal_where_nohup_has_started_it(database_url):
    with serving(database_url, within=["nohup"]) as (process, port), talking(port) as talker:
        process.send(signal.SIGHUP)
        talker.put()
        assert process.popen.poll() is None
        assert "is stopping" not in process.stderr


@pytest.mark.parametrize(
    ("ask", "code", "reason"),
    [
        (request_stop, 0, "requested in its row"),
        (request_restart, 12, "restart requested in its row"),
    ],
)
def test_it_ends_as_it_is_asked_to_in_its_row(served, ask, code, reason):
    process, _ = served
    wait_until(Worker.objects.exists)
    ask(Worker.objects.get().uuid)
    assert process.end() == code
    assert Worker.objects.get().stop_reason == reason


def test_asked_to_drain_it_gives_out_nothing_until_it_is_resumed(served):
    _, port = served
    wait_until(Worker.objects.exists)
    [uuid] = Worker.objects.values_list("uuid", flat=True)
    request_drain(uuid)

    def gives():
        """Whether it does: there is a job."""
        with talking(port, "t") as talker:
            talker.put()
            return talker.ask("reserve-with-timeout 0")[0] == "RESERVED"

    wait_until(lambda: not gives())
    with talking(port, "t") as talker:
        talker.say("reserve")
        request_resume(uuid)
        assert talker.hear()[0] == "RESERVED"


def test_more_connections_than_it_takes_are_refused(database_url):
    with serving(database_url, "--max-connections", "2", "--max-per-address", "1") as (_, port):
        with talking(port) as talker:
            with talking(port) as other:
                assert other.hear() == ["OUT_OF_MEMORY"]
                assert other.hear() == []
            assert talker.ask("list-tube-used") == ["USING", "default"]
        again = wait_until(lambda: is_taken(port))
        assert again


def is_taken(port):
    with talking(port) as talker:
        return talker.ask("list-tube-used") == ["USING", "default"]


def test_the_address_must_be_this_hosts_or_be_insecure_on_purpose(database_url):
    with running(database_url, "runbeanstalkd", "--listen", "0.0.0.0:0") as process:
        assert process.end() == 1
        assert "--insecure" in process.stderr


@pytest.mark.each_database
@pytest.mark.skipif(connection.vendor != "mysql", reason="others take what may be asked for")
def test_a_size_of_jobs_that_no_statement_holds_is_told(database_url):
    with running(database_url, "runbeanstalkd", "--max-job-size", str(2**30)) as process:
        assert process.end() == 1
        assert "max_allowed_packet" in process.stderr


def test_jobs_of_several_megabytes_come_and_go(database_url):
    body = "x" * 5_000_000
    with serving(database_url, "--max-job-size", "6000000") as (_, port), talking(port) as talker:
        key = talker.put(body)
        assert talker.reserve() == (key, body)
        assert talker.ask(f"delete {key}") == ["DELETED"]


def test_an_address_that_is_taken_is_told(served, database_url):
    _, port = served
    with running(database_url, "runbeanstalkd", "--listen", f"127.0.0.1:{port}") as process:
        assert process.end() == 1
        assert "cannot listen on" in process.stderr


def test_commands_are_answered_once_the_database_is_back(private):
    with running(
        private.database_url, "runbeanstalkd", "--listen", "127.0.0.1:0", **QUICK
    ) as process:
        port = port_of(process)
        with talking(port, "t") as talker, talking(port, "t") as other:
            held = talker.put("held")
            assert talker.reserve()[0] == held
            away = private.locked if connection.vendor == IS_SQLITE else private.away
            with away():
                said = threading.Thread(target=other.say, args=["put 0 0 60 1\r\nx"])
                said.start()
                said.join()
                talker.say("reserve")
                time.sleep(3)
            assert other.hear()[:1] == ["INSERTED"]
            assert talker.job()[1] == "x"
