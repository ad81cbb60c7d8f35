"""The errors of the three databases, and what each of them leaves behind."""

import os
import socket
import sqlite3
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from django.db import connection

from tests.sweeps.places import METHODS


@dataclass(frozen=True)
class Code:
    """``meaning``: lost = the connection is gone, and whether the statement arrived is unknown;
    unknown = the same, but the connection is there; whole = the transaction was rolled back;
    alone = the statement was. ``is_again``: the package must hide it from everybody."""

    name: Any
    meaning: str
    is_again: bool = False

    @property
    def is_unknown(self):
        return self.meaning in {"lost", "unknown"}

    def error(self):
        return ERRORS[connection.vendor](self.name)


def _mysql_error(code):
    driver = import_module("MySQLdb")
    kind = driver.ProgrammingError if code == 1064 else driver.OperationalError
    return kind(code, "for the test")


def _postgresql_error(state):
    psycopg = import_module("psycopg")
    kind = psycopg.errors.lookup(state) if state else psycopg.OperationalError
    return kind("for the test")


def _sqlite_error(name):
    error = sqlite3.OperationalError("for the test")
    error.sqlite_errorname = name
    error.sqlite_errorcode = getattr(sqlite3, name)
    return error


ERRORS = {"mysql": _mysql_error, "postgresql": _postgresql_error, "sqlite": _sqlite_error}

# The first ones of each list stand for their classes in the short form.
CODES = {
    "mysql": [
        Code(1213, "whole", is_again=True),
        Code(2013, "lost"),
        Code(1205, "alone", is_again=True),
        Code(1290, "alone"),
        Code(1114, "alone"),
        Code(1064, "alone"),  # the fault of the statement
        Code(1020, "whole", is_again=True),
        Code(1317, "alone", is_again=True),
        Code(2006, "lost"),
        Code(1927, "lost"),
        Code(1053, "lost"),
        Code(1040, "lost"),
    ],
    "postgresql": [
        Code("40P01", "whole", is_again=True),
        Code("57P01", "lost"),
        Code("25006", "whole"),
        Code("53100", "whole"),
        Code("42601", "whole"),  # the fault of the statement
        Code("40001", "whole", is_again=True),
        Code("55P03", "whole", is_again=True),
        Code("57P02", "lost"),
        Code("57P03", "lost"),
        Code("08006", "lost"),
        Code("53300", "lost"),
        Code("", "lost"),  # nobody answered
    ],
    "sqlite": [
        Code("SQLITE_BUSY", "alone", is_again=True),
        Code("SQLITE_IOERR", "unknown"),
        Code("SQLITE_READONLY", "alone"),
        Code("SQLITE_FULL", "whole"),
        Code("SQLITE_ERROR", "alone"),  # the fault of the statement
        Code("SQLITE_LOCKED", "alone", is_again=True),
        Code("SQLITE_BUSY_SNAPSHOT", "alone", is_again=True),
        Code("SQLITE_PROTOCOL", "alone", is_again=True),
        Code("SQLITE_IOERR_WRITE", "unknown"),
        Code("SQLITE_CANTOPEN", "unknown"),
    ],
}
WRITING = {"INSERT", "UPDATE", "DELETE"}
CLASSES = {"mysql": 6, "postgresql": 5, "sqlite": 5}


class Raise:
    """One error at one place: before the statement, or after it, when its answer is on its way."""

    def __init__(self, number, code, side):
        self.number, self.code, self.side = number, code, side
        self.hit = None

    def __call__(self, number, what, run):
        if number != self.number:
            return run()
        self.hit = what
        if self.side == "after":
            self._run(what, run)
        self._damage(what)
        with connection.wrap_database_errors:
            raise self.code.error()

    def _run(self, what, run):
        """Executed; where the error says that it was not, the database takes it back."""
        if self.code.is_unknown or what == "rollback":
            run()
        elif what not in METHODS:
            with undone(what):
                run()

    def _damage(self, what):
        """What the error has done to the session."""
        raw = connection.connection
        if raw is None:
            return
        if self.code.meaning == "lost":
            cut(raw)
        elif self.code.meaning == "whole" and connection.in_atomic_block:
            break_transaction(raw)


@contextmanager
def undone(what):
    """Whatever is done within has not happened."""
    begin, end = "BEGIN", "ROLLBACK"
    if connection.in_atomic_block:
        begin, end = "SAVEPOINT undone", "ROLLBACK TO SAVEPOINT undone"
    word = what.split(maxsplit=1)[0]
    with closing(connection.connection.cursor()) as cursor:
        if word in WRITING:
            cursor.execute(begin)
        yield
        if word in WRITING:
            cursor.execute(end)
        elif word == "BEGIN":
            cursor.execute("ROLLBACK")


def cut(raw):
    """The wire, so that the client finds out when it uses it."""
    with socket.socket(fileno=os.dup(raw.fileno())) as wire:
        wire.shutdown(socket.SHUT_RDWR)


def break_transaction(raw):
    """As the server does: PostgreSQL's refuses all but a rollback, the others' is gone."""
    is_kept = connection.vendor == "postgresql"
    errors = connection.Database.DataError  # type: ignore[attr-defined]
    with closing(raw.cursor()) as cursor, suppress(errors):
        cursor.execute("SELECT 1 / 0" if is_kept else "ROLLBACK")
