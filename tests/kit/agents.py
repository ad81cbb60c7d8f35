"""An agent in the test's own process: its supervisor is the test."""

import socket
from typing import Any

from django_dbqueue.worker.agent import DatabaseAgent
from django_dbqueue.worker.channel import BeatNow, Channel
from django_dbqueue.worker.heartbeat import Beat, Heartbeat
from django_dbqueue.worker.options import Options
from django_dbqueue.worker.served import parse_served
from django_dbqueue.worker.supervisor import Supervisor

UUID = "c" * 32


class AgentHere:
    """``tell`` it something, let it ``turn``, and look at what it has ``said``."""

    def __init__(self, *tables: str, last: Beat | None = None, **options: Any) -> None:
        told = Options(served=parse_served(list(tables) or ["queueapp.Note"]), **options)
        ours, theirs = socket.socketpair()
        self.channel = Channel(ours)
        who = UUID, "default", told.serves()["default"]
        timing = told.beat_interval, told.worker_timeout
        heartbeat = Heartbeat(*who, *timing, last=last, pid=1)
        self.agent = DatabaseAgent(told, heartbeat, Channel(theirs))

    def tell(self, message: object) -> None:
        self.channel.send(message)

    def turn(self) -> list[Any]:
        """What it says in one turn, in which it passes over the tables, too."""
        self.agent._next_reap = 0.0
        self.agent.turn()
        return self.channel.receive()

    def beat(self, **state: Any) -> list[Any]:
        self.tell(BeatNow(state))
        return self.turn()


def state_of(supervisor: Supervisor) -> Any:
    """What a supervisor wants to have written with its next beat."""
    ours, theirs = socket.socketpair()
    [handle] = supervisor.agents
    handle.begin(0, Channel(ours))
    supervisor._beat()
    [message] = Channel(theirs).receive()
    return message.state
