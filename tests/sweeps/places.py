"""Every statement of a connection as a numbered place: begin, commit, rollback and connect, too."""

from collections import defaultdict
from contextlib import contextmanager
from functools import partial

METHODS = {
    "connect": "get_new_connection",
    "commit": "_commit",
    "rollback": "_rollback",
    "autocommit": "_set_autocommit",
}
WRITES = ("INSERT", "UPDATE", "DELETE")


class Places:
    """Numbers what passes, and lets ``fault(number, what, run)`` run it."""

    def __init__(self, fault):
        self.fault = fault
        self.count = 0
        self.is_open = True

    def __call__(self, execute, sql, params, many, context):
        return self.let_pass(sql, partial(execute, sql, params, many, context))

    def let_pass(self, what, run):
        if not self.is_open:
            return run()
        number, self.count = self.count, self.count + 1
        return self.fault(number, what, run)

    @contextmanager
    def unnumbered(self):
        """Time passes meanwhile, or another process works."""
        self.is_open = False
        try:
            yield
        finally:
            self.is_open = True


@contextmanager
def numbered(connection, fault):
    """From here on what a connection does is numbered; it reconnects first."""
    connection.close()
    places = Places(fault)
    # Elsewhere that sends nothing to the server.
    names = set(METHODS) - ({"autocommit"} if connection.vendor != "mysql" else set())
    for name in names:
        method = METHODS[name]
        setattr(connection, method, _wrapped(places, name, getattr(connection, method)))
    try:
        with connection.execute_wrapper(places):
            yield places
    finally:
        for name in names:
            delattr(connection, METHODS[name])


def _wrapped(places, name, method):
    return lambda *args: places.let_pass(name, partial(method, *args))


class Seen(list):
    """No fault: what there is at each place, in short."""

    def writes(self, chance, times):
        """Some of each kind that writes jobs, and of the commits: what is cut off there leaves a
        half, or an answer that nobody has heard."""
        kinds = defaultdict(list)
        for number, what in enumerate(self):
            if what == "commit" or (what.startswith(WRITES) and "queueapp" in what):
                kinds[what].append(number)
        for same in kinds.values():
            yield from chance.sample(same, min(times, len(same)))

    def __call__(self, number, what, run):
        self.append(what[:80])
        return run()
