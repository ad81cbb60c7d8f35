"""The processes that work on databases for a supervisor: killed, stuck, left alone, replaced."""

import os
import signal
import socket

import pytest

from django_dbqueue.models import Worker
from django_dbqueue.states import Status
from django_dbqueue.worker.agents import AgentHandle, Agents
from django_dbqueue.worker.channel import Channel
from tests.kit.forked_children import RefusedOnce
from tests.kit.jobs import fresh
from tests.kit.processes import has_ended, lines, wait_for_a_beat, wait_for_lines, worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note

TIMING = {"DBQUEUE_BEAT_INTERVAL": "0.3", "DBQUEUE_WORKER_TIMEOUT": "3"}
on_rows = pytest.mark.usefixtures("db_rows")


def replaced(process, agent):
    [successor] = wait_until(lambda: {*process.agents()} - {agent})
    return successor


@on_rows
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_an_agent_that_is_gone_or_stuck_is_replaced_and_no_job_notices(database_url, log, number):
    Note.objects.bulk_create([Note(log=log, seconds=0.1) for _ in range(20)])
    with worker(database_url, **TIMING) as process:
        wait_for_lines(log, 1)
        [agent] = process.agents()
        os.kill(agent, number)
        replaced(process, agent)
        wait_for_a_beat(process)
        wait_until(lambda: Note.objects.done().count() == 20)
        process.send(signal.SIGTERM)
        assert process.end() == 0
    assert len(lines(log)) == 20
    assert Worker.objects.get().stopped_at
    assert "taken for dead" not in process.stderr


def test_an_agent_that_cannot_be_forked_is_forked_later(monkeypatch, caplog):
    handle, pairs, pair = AgentHandle("default", 2, 10), [], socket.socketpair
    agents = Agents([handle], lambda *_: 0)
    monkeypatch.setattr(socket, "socketpair", lambda: pairs.append(pair()) or pairs[-1])
    monkeypatch.setattr(os, "fork", refuse_once := RefusedOnce(os.fork))
    agents.turn()
    assert (handle.pid, refuse_once.calls) == (0, 1)
    assert "no agent can be started: no process for now; trying again in 5 s" in caplog.messages
    assert 0 < handle.wait() <= 5
    assert [one.fileno() for one in pairs[0]] == [-1, -1]
    agents.turn()
    assert refuse_once.calls == 1
    handle.fork_at = 0.0
    agents.turn()
    assert (os.waitpid(handle.pid, 0)[1], refuse_once.calls) == (0, 2)
    agents.let_go()


@on_rows
def test_what_a_stuck_agent_was_told_its_successor_does(database_url, log):
    job = Note.objects.create(log=log, seconds=60)
    with worker(database_url, **TIMING) as process:
        child = int(wait_for_lines(log, 1)[0].split()[-1])
        os.kill(process.agents()[0], signal.SIGSTOP)
        os.kill(child, signal.SIGKILL)
        wait_for_lines(log, 2)
    assert fresh(job).crashes == 1


@on_rows
def test_a_worker_ends_although_its_agent_is_stuck(database_url, log):
    job = Note.objects.create(log=log, seconds=300)
    with worker(database_url, "--shutdown-timeout", "0.5") as process:
        wait_for_lines(log, 1)
        [agent] = process.agents()
        os.kill(agent, signal.SIGSTOP)
        process.send(signal.SIGTERM)
        assert process.end(60) == 0
    assert "could not sign off" in process.stderr
    assert fresh(job).status == Status.CLAIMED
    assert Worker.objects.get().stopped_at is None


@on_rows
def test_an_agent_ends_with_its_supervisor(database_url):
    with worker(database_url) as process:
        [agent] = wait_until(lambda: Worker.objects.exists() and process.agents())
        process.send(signal.SIGKILL)
        wait_until(lambda: has_ended(agent))
    assert Worker.objects.get().stopped_at is None


@pytest.mark.any_database
def test_neither_end_of_a_channel_waits_for_the_other():
    ours, theirs = map(Channel, socket.socketpair())
    messages = [bytes(1_000_000), "small", {"a": 1}]
    for message in messages:
        ours.send(message)
    heard = theirs.receive()
    assert heard == []
    while len(heard) < 3:
        ours.flush()
        heard += theirs.receive()
    assert heard == messages
    assert theirs.receive() == []
    theirs.close()
    ours.send("more")
    assert ours.is_closed
