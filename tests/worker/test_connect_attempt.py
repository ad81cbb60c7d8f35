"""A connect on a thread of its own: what becomes of it where the server falls silent."""

import _thread
import os
import threading
from contextvars import ContextVar
from pathlib import Path

import pytest

from django_dbqueue.worker import connect_attempt
from django_dbqueue.worker.connect_attempt import ConnectAttempt
from tests.kit.jobs import start
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.any_database

THREADS = Path("/proc/self/task")


class Silence(Exception):
    pass


class Server:
    """Answers a connect once it is let."""

    def __init__(self):
        self.asked, self.answers, self.is_closed = threading.Event(), threading.Event(), False

    def connect(self):
        self.asked.set()
        self.answers.wait(60)
        return self

    def close(self):
        self.is_closed = True


@pytest.fixture
def server():
    made = Server()
    yield made
    made.answers.set()
    wait_until(lambda: all(one._is_over.is_set() for one in connect_attempt._left_alone))


def given_up(server):
    attempt = ConnectAttempt(server.connect, Silence())
    waiting = start(attempt.result)
    server.asked.wait(60)
    attempt.give_up()
    with pytest.raises(Silence):
        waiting.result()


def test_an_answer_is_handed_on_and_the_thread_is_gone(server):
    before = {*THREADS.iterdir()}
    server.answers.set()
    assert ConnectAttempt(server.connect, Silence()).result() is server
    wait_until(lambda: {*THREADS.iterdir()} <= before)


def test_it_sees_the_context_of_who_connects():
    tenant = ContextVar("tenant", default="none")
    tenant.set("north")
    assert ConnectAttempt(tenant.get, Silence()).result() == "north"


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3)])
def test_so_is_an_error_whatever_it_is(error):
    def connect():
        raise error

    with pytest.raises(type(error)) as raised:
        ConnectAttempt(connect, Silence()).result()
    assert raised.value is error


def test_a_session_that_comes_after_it_was_given_up_is_closed(server):
    given_up(server)
    server.answers.set()
    wait_until(lambda: server.is_closed)


def test_no_more_than_some_are_left_alone(server, monkeypatch):
    monkeypatch.setattr(connect_attempt, "LEFT_ALONE_MAX", 1)
    given_up(server)
    never = Server()
    with pytest.raises(Silence, match="1 connects are still without an answer"):
        ConnectAttempt(never.connect, Silence()).result()
    assert not never.asked.is_set()
    server.answers.set()
    wait_until(lambda: server.is_closed)
    never.answers.set()
    wait_until(lambda: ConnectAttempt(never.connect, Silence()).result() is never)


def refuse(*_):
    raise RuntimeError("can't start new thread")


def find_no_memory(*_):
    raise MemoryError


def begin_in_vain(*_):
    """It finds no memory for its first call."""


@pytest.mark.parametrize("begin", [refuse, find_no_memory, begin_in_vain])
def test_where_no_thread_is_to_be_had_the_caller_connects(server, monkeypatch, begin):
    monkeypatch.setattr(_thread, "start_new_thread", begin)
    monkeypatch.setattr(connect_attempt, "BEGIN_SECONDS_MAX", 0.1)
    server.answers.set()
    for _ in range(connect_attempt.LEFT_ALONE_MAX + 1):
        assert ConnectAttempt(server.connect, Silence()).result() is server


def test_a_thread_that_begins_when_the_caller_has_connected_does_nothing(server, monkeypatch):
    begun = []
    monkeypatch.setattr(connect_attempt, "BEGIN_SECONDS_MAX", 0.1)
    server.answers.set()
    with monkeypatch.context() as patched:
        patched.setattr(_thread, "start_new_thread", lambda *run: begun.append(run))
        assert ConnectAttempt(server.connect, Silence()).result() is server
    server.asked.clear()
    [(run, given)] = begun
    run(*given)
    assert not server.asked.is_set()


def test_a_forked_process_has_none_of_those_that_were_left_alone(server):
    given_up(server)
    assert connect_attempt._left_alone
    child = os.fork()
    if not child:
        os._exit(len(connect_attempt._left_alone))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
