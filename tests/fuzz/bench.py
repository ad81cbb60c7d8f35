"""A worker's own parts in this process, one after the other, so that every fault is seen."""

import logging
import threading
import time

from django.db import connection
from django.db.models import QuerySet

from django_dbqueue import events
from django_dbqueue.lifecycle.table import table_of
from django_dbqueue.reaper import Reaper
from django_dbqueue.states import Status
from django_dbqueue.worker.board import Board
from django_dbqueue.worker.buffer import Buffer
from django_dbqueue.worker.claimer import Claimer
from django_dbqueue.worker.doorbell import Doorbell
from django_dbqueue.worker.finisher import Finisher
from django_dbqueue.worker.options import Options, parse_served
from django_dbqueue.worker.runner import Runner
from django_dbqueue.worker.session import Session

# What a worker logs when a row stops more than itself.
TROUBLES = (
    "claiming: ",
    "recording outcomes: ",
    "cannot be written",
    "the reaper leaves",
    "is left out",
    "went wrong",
)


class Bench(logging.Handler):
    """Claims, runs, finishes and reaps; what it logs is listened to."""

    def __init__(self, *labels):
        super().__init__(logging.WARNING)
        options = Options(served=parse_served(list(labels)), batch_size=10)
        self.board, self.buffer = Board(1), Buffer(1)
        self.finisher = Finisher(Session({"default"}), 50, lambda: None)
        self.claimer = Claimer(
            options,
            "f" * 32 + ".1-",
            self.buffer,
            self.board,
            Doorbell(set()),
            None,
            lambda: self.finisher.pending,
        )
        self.claimer.session = Session({"default"})
        self.runner = Runner(
            0, self.buffer, self.finisher, self.board, 10, threading.Event(), lambda: None
        )
        tables = [table_of(served.model, "default") for served in options.served]
        self.reaper = Reaper(tables, 10, events.reaped)
        self.troubles = []

    def emit(self, record):
        message = record.getMessage()
        if any(trouble in message for trouble in TROUBLES):
            self.troubles.append(message)

    def __enter__(self):
        logging.getLogger("django_dbqueue").addHandler(self)
        return self

    def __exit__(self, *_):
        logging.getLogger("django_dbqueue").removeHandler(self)
        connection.close()

    def turn(self):
        self.board.beat(time.monotonic(), 1)
        self.reaper._keep_at = 0.0
        self.reaper.turn(judge=lambda: True)
        self.claimer.lanes.look_now()
        self.claimer.turn()
        while len(self.buffer):
            self.runner._take(self.buffer.get())
        self.finisher.turn(idle=True)

    def work_off(self, good, seconds=30):
        """Until the good jobs are done, and for some turns more."""
        deadline = time.monotonic() + seconds
        while any(self.left(model, keys) for model, keys in good.items()):
            assert time.monotonic() < deadline, f"good jobs wait: {self.troubles[-3:]}"
            self.turn()
        for _ in range(3):
            self.turn()

    def left(self, model, keys):
        done = QuerySet(model).filter(pk__in=keys, status=Status.DONE)
        return len(keys) - done.count()
