"""The demo itself, from the empty folder to the settled queue."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.db import connection
from django.db.utils import Error

from testproject.shop.models import Thumbnail

from . import records, scenario
from .account import Account
from .folder import URL, is_on_server, shown
from .post import HOST, PostOffice
from .screen import Screen
from .summary import Times
from .workers import COMMAND, Process

LOOK_EVERY = 0.05  # seconds


class NoDatabase(Exception):
    """The server is away, or lets no database be made."""


class Stuck(Exception):
    """Not all was settled by the deadline."""


class Story:
    """Runs once; ``account`` and ``times`` hold what came of it."""

    def __init__(self, messages: int, deadline: float) -> None:
        self.messages = messages
        self.deadline = deadline
        self.screen = Screen(messages)
        self.office = PostOffice()
        self.times = Times()
        self.in_hand: list[Any] = []  # of the victim, when it was killed
        self.victim: Process | None = None
        self.victims_prefix = ""

    def run(self) -> Account:
        self._migrate()
        with self.office.open():
            placed = self._enqueue()
            self._introduce_the_office(placed)
            with self._workers() as workers:
                self._follow(workers)
                exit_code = self._stop(workers)
            return records.take_account(placed, self.office, self.in_hand, exit_code)

    def _migrate(self) -> None:
        if is_on_server(URL.read_text()):
            make_database()
        call_command("migrate", verbosity=0)
        name = shown(Path(connection.settings_dict["NAME"]))
        self.screen.item("database", f"{name}, {connection.display_name}, migrated")

    def _enqueue(self) -> scenario.Placed:
        started = time.monotonic()
        scenario.order_thumbnails()
        placed = scenario.place_orders(self.messages)
        self.screen.item(
            "enqueued",
            f"{placed.committed:,} messages, each in its order's transaction, and "
            f"{scenario.PHOTOS} thumbnails, in {time.monotonic() - started:.1f} s",
        )
        self.screen.item("rolled back", f"{placed.rolled_back} more orders with their messages")
        return placed

    def _introduce_the_office(self, placed: scenario.Placed) -> None:
        self.screen.item(
            "mail server",
            f"{HOST}:{self.office.port}, will defer {placed.deferred} of them (451), "
            f"refuse {placed.by_domain[scenario.GONE]} (550)",
        )

    @contextmanager
    def _workers(self) -> Iterator[list[Process]]:
        workers: list[Process] = []
        try:
            workers += [Process(1, self.office.port)]
            workers += [Process(2, self.office.port)]
            self.screen.item("workers", f"2 x manage.py {COMMAND}")
            self.screen.say()
            yield workers
        finally:
            for worker in workers:
                worker.clean_up()

    # While they work

    def _follow(self, workers: list[Process]) -> None:
        """Look on until nothing is left to do, and kill a worker on the way."""
        self.times.start = time.monotonic()
        while not self._look(workers):
            if time.monotonic() > self.times.start + self.deadline:
                raise Stuck("\n".join(records.what_hangs()))
            time.sleep(LOOK_EVERY)
        self.times.end = time.monotonic()

    def _look(self, workers: list[Process]) -> bool:
        """Whether all is settled."""
        for worker in workers:
            worker.check_alive()
        if self.victim is None and self.office.deliveries >= self.messages // 3:
            self._kill_one(workers)
        self._watch_hand_over()
        mails, thumbnails = records.mails_by_status(), records.by_status(Thumbnail)
        is_settled = not records.unsettled(mails) and not records.unsettled(thumbnails)
        made = sum(thumbnails.values()) - records.unsettled(thumbnails)
        self.screen.show(mails, made, is_settled)
        living = sum(worker is not self.victim for worker in workers)
        # Its jobs are taken over first; then it is known to be dead.
        return is_settled and records.registered() == living

    def _kill_one(self, workers: list[Process]) -> None:
        """Kill the worker that has most in hand."""
        self.times.note_speed(self.office.deliveries, self.office.first_at)
        held = [len(records.held_by(prefix)) for prefix in map(Process.owner_prefix, workers)]
        self.victim = workers[held.index(max(held))]
        self.victims_prefix = self.victim.owner_prefix()
        self.victim.kill()
        self.times.kill = time.monotonic()
        time.sleep(0.2)  # let its children be dead for certain
        self.in_hand = records.held_by(self.victims_prefix)
        self.times.jobs_in_hand = len(self.in_hand)
        self.screen.say(
            f"  {self.victim} killed with its children (SIGKILL): {len(self.in_hand)} jobs in hand"
        )

    def _watch_hand_over(self) -> None:
        if self.victim is None or self.times.hand_over:
            return
        if not records.held_by(self.victims_prefix):
            self.times.hand_over = time.monotonic()
            self.screen.say(
                f"  {self.victim} given up by the other one, {len(self.in_hand)} jobs taken over"
            )

    def _stop(self, workers: list[Process]) -> int:
        """Ask the other worker to stop; its exit code."""
        [survivor] = [worker for worker in workers if worker is not self.victim]
        code = survivor.stop()
        self.screen.say()
        return code


def make_database() -> None:
    """Make it, in the place of what an earlier demo has left."""
    name = connection.settings_dict["NAME"]
    creation: Any = connection.creation
    connection.settings_dict["TEST"]["NAME"] = name
    try:
        creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    except Error as error:
        raise NoDatabase(str(error)) from error
