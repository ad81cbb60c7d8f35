"""Histories made by hand, with the rows that they leave: what the checker is tested with."""

from collections.abc import Callable
from itertools import count
from typing import Any

from django_dbqueue.torture.checker import Report, Settings, check

# An event, a row, or a run: fields by their names.
Entry = dict[str, Any]
NS = 1_000_000_000
SETTINGS = Settings(max_attempts=3, beat_interval=0.2, worker_timeout=1, buffered=1, late=0.2)
WORKERS = {pid: f"worker-{pid // 10}" for pid in range(10, 60)}


class Tale:
    """Time passes by ``wait``, and a millisecond with each event. A worker's supervisor has the
    pid 10, 20 .. and its children those that follow."""

    def __init__(self, settings: Settings = SETTINGS) -> None:
        self.now = 1000 * NS
        self.settings = settings
        self.events: list[Entry] = []
        self.rows: dict[int, Entry] = {}
        self.effects: list[Entry] = []
        self._claims = count(1)

    def wait(self, seconds: float) -> None:
        self.now += int(seconds * NS)

    def note(self, op: str, kind: str = "ok", pid: int = 1, **fields: Any) -> Entry:
        self.now += NS // 1000
        who = WORKERS.get(pid, "producer")
        event = {"t": self.now, "pid": pid, "who": who, "op": op, "type": kind, **fields}
        self.events.append(event)
        return event

    def enqueue(
        self, key: int = 1, answer: str | None = "ok", queue: str = "default", **fields: Any
    ) -> int:
        mark = f"mark-{key}"
        self.note("enqueue", "invoke", mark=mark, queue=queue, **fields)
        if answer:
            known = {"key": key} if answer == "ok" else {}
            self.note("enqueue", answer, mark=mark, queue=queue, **known)
        if answer != "fail":
            self.rows[key] = row(key, queue=queue)
        return key

    def start(
        self, key: int = 1, pid: int = 11, owner: str | None = None, attempt: int | None = None
    ) -> Entry:
        """A claim and its start; the row is changed by the claim only."""
        one = self.rows[key]
        owner = owner or f"{WORKERS[pid]}.{next(self._claims)}"
        attempt = attempt or one["attempts"] + 1
        one |= {"status": "claimed", "owner": owner, "attempts": attempt}
        one |= {"retry_at_past_seconds": -60.0}
        run = {"key": key, "mark": one["mark"], "owner": owner}
        self.note("start", "invoke", pid, **run, attempt=attempt, crashes=one["crashes"])
        return run | {"pid": pid}

    def effect(self, run: Entry) -> Entry:
        return self.note("effect", **run)

    def end(self, run: Entry, kind: str = "ok") -> Entry:
        return self.note("end", kind, **run)

    def completed(self, run: Entry) -> Entry:
        self.put(run, status="done", finished=True, retry_at_past_seconds=None)
        return self.accepted("completed", run)

    def accepted(self, op: str, run: Entry, **fields: Any) -> Entry:
        return self.note(op, "ok", run["pid"], key=run["key"], owner=run["owner"], **fields)

    def failed(
        self, run: Entry, retry_in: float | None = 0.1, exception: str = "RuntimeError"
    ) -> Entry:
        errors = [*self.rows[run["key"]]["errors"], entry(run, exception)]
        self.free(run, "delayed" if retry_in else "ready", errors=errors)
        return self.accepted("failed", run, retry_in=retry_in)

    def buried(self, run: Entry, exception: str = "RuntimeError") -> Entry:
        """It fails for the last time."""
        self.failed(run, retry_in=None, exception=exception)
        self.put(run, status="buried", finished=True)
        return self.accepted("buried", run)

    def reaped(self, run: Entry, pid: int = 20, charged: bool | None = None) -> Entry:
        """By another worker, or (``pid``) by its own supervisor, which saw it die."""
        one = self.rows[run["key"]]
        if charged is None:
            charged = WORKERS[pid] == WORKERS[run["pid"]]
        crash = {"crashes": one["crashes"] + 1, "errors": [*one["errors"], entry(run, "Lost")]}
        self.free(run, "ready", attempts=one["attempts"] - 1, **(crash if charged else {}))
        owner = run["owner"]
        fields = {"key": run["key"], "owner": owner, "verdict": "ready", "charged": charged}
        return self.note("reaped", "ok", pid, **fields)

    def kick(self, key: int = 1) -> Entry:
        self.rows[key] |= {"status": "ready", "attempts": 0, "crashes": 0, "finished": False}
        return self.note("kick", key=key)

    def kill(self, *pids: int, **fields: Any) -> Entry:
        return self.note("kill", "info", 2, pids=[*pids], **fields)

    def stop(self, *pids: int) -> Entry:
        return self.note("stop", "info", 2, pids=[*pids])

    def cont(self, *pids: int) -> Entry:
        return self.note("cont", "info", 2, pids=[*pids])

    def free(self, run: Entry, status: str, **columns: Any) -> None:
        self.put(run, status=status, owner=None, retry_at_past_seconds=None, **columns)

    def put(self, run: Entry, **columns: Any) -> None:
        self.rows[run["key"]] |= columns

    def ran(self, key: int = 1, pid: int = 11) -> Entry:
        """From its claim to its end."""
        run = self.start(key, pid)
        self.effect(run)
        self.end(run)
        self.completed(run)
        return run

    def done(self, key: int = 1, **fields: Any) -> Entry:
        return self.ran(self.enqueue(key, **fields))

    def drop(self, event: Entry) -> None:
        self.events.remove(event)

    def report(self) -> Report:
        return check(self.events, list(self.rows.values()), self.effects, self.settings)


def row(key: int | str, **columns: Any) -> Entry:
    return {
        "place": "live",
        "key": key,
        "mark": f"mark-{key}",
        "queue": "default",
        "status": "ready",
        "owner": None,
        "attempts": 0,
        "crashes": 0,
        "errors": [],
        "retry_at_past_seconds": None,
        "finished": False,
        "dedup_key": None,
    } | columns


def entry(run: Entry, exception: str) -> Entry:
    return {"owner": run["owner"], "exception": exception}


Teller = Callable[[Tale], object]


class BadHistories(dict[str, tuple[tuple[str, ...], Teller]]):
    """By name what tells a bad one, and the verdicts that are to catch it."""

    def caught_by(self, *verdicts: str) -> Callable[[Teller], Teller]:
        def keep(tell: Teller) -> Teller:
            self[tell.__name__] = verdicts, tell
            return tell

        return keep

    def check(self, name: str) -> None:
        """Exactly these verdicts catch it."""
        expected, tell = self[name]
        report = told(tell).report()
        assert report.broken == [*expected], {
            n: report.verdicts[n].violations for n in report.broken
        }
        assert not report.holds


def claimed_twice(tale: Tale) -> Entry:
    """The second claim of a job whose first is still running."""
    tale.enqueue()
    first = tale.start(pid=11)
    tale.put(first, attempts=0)
    return tale.start(pid=21)


def finish(tale: Tale, run: Entry) -> None:
    tale.effect(run)
    tale.end(run)
    tale.completed(run)


def crashed(tale: Tale) -> Entry:
    tale.enqueue()
    run = tale.start()
    tale.kill(11)
    tale.reaped(run, pid=10)
    return run


def until_its_end(tale: Tale) -> Entry:
    tale.enqueue()
    run = tale.start()
    tale.effect(run)
    tale.end(run)
    return run


def taken_on_the_brink(tale: Tale) -> Entry:
    """What had been handed to a thread counts as started."""
    tale.enqueue()
    tale.rows[1] |= {"attempts": 1}
    late = {"key": 1, "mark": "mark-1", "owner": "worker-1.9", "pid": 11}
    tale.stop(10, 11)
    tale.wait(1.5)
    tale.reaped(late)
    tale.ran(pid=21)
    return late


def told(tell: Teller) -> Tale:
    tale = Tale()
    tell(tale)
    return tale
