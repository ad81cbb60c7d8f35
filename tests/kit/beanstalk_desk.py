"""A server of tubes without sockets, in the test's own process."""

from collections import defaultdict
from typing import Any

from django_dbqueue.beanstalk import commands
from django_dbqueue.beanstalk.broker import Broker
from django_dbqueue.beanstalk.inbox import News
from django_dbqueue.beanstalk.state import Client
from tests.kit.waiting import wait_until


class Desk:
    """A broker whose turns the test takes, and what it has answered."""

    def __init__(self, **options: Any) -> None:
        self.answers: dict[Client, list[Any]] = defaultdict(list)
        self.broker = Broker("default", self._note, **options)

    def _note(self, client: Client, reply: bytes | None) -> None:
        self.answers[client].append(reply)

    def client(self, tube: str = "default") -> Client:
        made = Client()
        self.broker.submit(made, News.CONNECTED)
        if tube != "default":
            self.ask(made, commands.Use(tube))
            self.ask(made, commands.Watch(tube))
            self.ask(made, commands.Ignore("default"))
        return made

    def ask(self, client: Client, command: Any) -> Any:
        """The answer, or None where it has to wait."""
        before = len(self.answers[client])
        self.broker.submit(client, command)
        self.turn()
        return (self.answers[client][before:] or [None])[0]

    def turn(self) -> None:
        self.broker.turn()
        while self.broker._inbox or self.broker._others:
            self.broker.turn()

    def put(
        self, client: Client, body: bytes = b"x", priority: int = 0, delay: int = 0, ttr: int = 60
    ) -> int:
        return int(self.ask(client, commands.Put(priority, delay, ttr, body)).split()[1])

    def reserve(self, client: Client) -> int | None:
        """The key, or None."""
        answer = self.ask(client, commands.ReserveWithTimeout(0))
        return int(answer.split()[1]) if answer.startswith(b"RESERVED") else None

    def hears(self, client: Client, word: bytes, seconds: float = 30) -> Any:
        """Wait for an answer that time brings."""

        def has_come() -> list[Any]:
            self.turn()
            return [one for one in self.answers[client] if one.startswith(word)]

        return wait_until(has_come, seconds)[0]
