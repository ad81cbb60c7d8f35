"""Threads that live as long as a sweep, each with a connection of its own; one can be stopped
before any of its statements and around its commits."""

import queue
import threading

from django.db import connections

from django_dbqueue.dialects import dialect_of
from tests.kit.connections import forget_others

DEADLINE = 60


class Stop:
    """Stops the thread that passes under it at the n-th of its boundaries."""

    def __init__(self, at):
        self.at = at
        self.passed = 0
        self.reached = threading.Event()
        self.go_on = threading.Event()
        # Whether its transaction is open meanwhile, so that others may have to wait for it.
        self.holds = False

    def __call__(self, execute, sql, params, many, context):
        self.boundary(holds=context["connection"].in_atomic_block)
        return execute(sql, params, many, context)

    def boundary(self, holds):
        here, self.passed = self.passed, self.passed + 1
        if here == self.at:
            self.holds = holds
            self.reached.set()
            assert self.go_on.wait(DEADLINE), "nobody let it go on"

    def around_commit(self, commit):
        def stopping():
            self.boundary(holds=True)
            commit()
            self.boundary(holds=False)

        return stopping


class Act:
    """One act in a lane, its answer or its error."""

    def __init__(self, work, waits, stop):
        self.work, self.waits, self.stop = work, waits, stop
        self.answer = None
        self.is_over = threading.Event()

    def run(self):
        connection = connections["default"]
        try:
            self._prepare(connection)
            connection._commit = self.stop.around_commit(connection._commit)  # type: ignore[attr-defined]
            with connection.execute_wrapper(self.stop):
                self.answer = self.work()
        except BaseException as error:
            self.answer = error
            connection.close()
        finally:
            vars(connection).pop("_commit", None)
            self.is_over.set()
            self.stop.reached.set()

    def _prepare(self, connection):
        connection.ensure_connection()
        dialect = dialect_of(connection)
        forget_others(connection)
        with connection.cursor() as cursor:
            # Our own connections do not wait for SQLite's one writer, they try again; users' do.
            waiting = self.waits and dialect.one_writer
            cursor.execute("PRAGMA busy_timeout = 20000" if waiting else dialect.own_session())

    def result(self):
        assert self.is_over.wait(DEADLINE), f"{self.work} did not end"
        return self.answer


class Lane:
    """A thread that does one act after another."""

    def __init__(self):
        self._acts = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def begin(self, work, waits=False, stop=None):
        act = Act(work, waits, stop or Stop(at=None))
        self._acts.put(act)
        return act

    def end(self):
        self._acts.put(None)
        self._thread.join(DEADLINE)

    def _run(self):
        while act := self._acts.get():
            act.run()
        connections.close_all()
