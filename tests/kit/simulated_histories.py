"""A small queue on paper, with workers that die: it makes histories that are right."""

from collections.abc import Sequence
from random import Random
from typing import Any

from tests.kit.histories import WORKERS, Entry, Tale

# A run, and what comes next.
Running = list[Any]
FAULTS = ("kill", "group", "stop", "outage")
TROUBLE = 0.08  # the share of steps in which something goes wrong


class Simulation:
    """Random, by ``rng``; one step at a time, then all jobs are brought to their end."""

    def __init__(self, rng: Random, steps: int = 120, faults: Sequence[str] = FAULTS) -> None:
        self.rng = rng
        self.faults = faults
        self.tale = Tale()
        self.free = [11, 12, 21, 22, 31, 32]
        self.unused = [pid for pid in WORKERS if pid % 10 > 2 and pid < 50]
        self.running: list[Running] = []
        self.due: dict[int, int] = {}
        for _ in range(steps):
            self.step()
        self.drain()

    def step(self) -> None:
        self.tale.wait(self.rng.choice([0, 0.001, 0.05, 0.3]))
        if self.faults and self.rng.random() < TROUBLE:
            getattr(self, self.rng.choice(self.faults))()
        else:
            self.rng.choice([self.enqueue, self.claim, self.go_on, self.go_on, self.kick])()

    def enqueue(self) -> None:
        key = len(self.due) + 1
        answer = self.rng.choice(["ok", "ok", "ok", "info", None, "fail"])
        delay = self.rng.choice([0, 0, 0.5])
        once = self.rng.random() < 0.3
        self.tale.enqueue(key, answer, delay=delay, exactly_once=once)
        self.due[key] = self.tale.now + int(delay * 1e9)
        if answer in {"info", None} and self.rng.random() < 0.5:
            self.tale.rows.pop(key)

    def ready(self) -> list[int]:
        taken = {run["key"] for run, _ in self.running}
        return [
            key
            for key, row in self.tale.rows.items()
            if row["status"] in {"ready", "delayed"}
            and key not in taken
            and self.due[key] <= self.tale.now
        ]

    def claim(self) -> None:
        ready = self.ready()
        if ready and self.free:
            pid = self.free.pop(self.rng.randrange(len(self.free)))
            self.running.append([self.tale.start(self.rng.choice(ready), pid), "effect"])

    def go_on(self) -> None:
        if not self.running:
            return
        one = self.rng.choice(self.running)
        run, state = one
        if state == "effect":
            if not self.is_exactly_once(run):
                self.tale.effect(run)
            one[1] = self.rng.choice(["ok", "ok", "fail"])
        elif state in {"ok", "fail"}:
            self.tale.end(run, state)
            one[1] = {"ok": "complete", "fail": "refuse"}[state]
        else:
            self.write(run, state)
            self.leave(one)

    def leave(self, one: Running) -> None:
        self.running.remove(one)
        self.free.append(one[0]["pid"])

    def is_exactly_once(self, run: Entry) -> bool:
        asked = [e for e in self.tale.events if e["op"] == "enqueue" and e["mark"] == run["mark"]]
        return bool(asked[0]["exactly_once"])

    def write(self, run: Entry, state: str) -> list[Entry]:
        """The outcome is accepted; the notes of it."""
        if state == "complete":
            if self.is_exactly_once(run):
                self.tale.effects.append({"mark": run["mark"]})
            return [self.tale.completed(run)]
        wait = self.rng.choice([0, 0.2])
        self.due[run["key"]] = self.tale.now + int(wait * 1e9)
        if self.tale.rows[run["key"]]["attempts"] < 3:
            return [self.tale.failed(run, retry_in=wait)]
        self.tale.buried(run)
        return self.tale.events[-2:]

    def kick(self) -> None:
        buried = [key for key, row in self.tale.rows.items() if row["status"] == "buried"]
        if buried and self.rng.random() < 0.5:
            self.tale.kick(self.rng.choice(buried))

    def lost_note(self, *notes: Entry) -> None:
        for note in notes:
            self.tale.drop(note)

    def kill(self) -> None:
        """A child; its supervisor gives its job back, unless the outcome had just arrived."""
        if not self.running or not self.unused:
            return
        one = self.rng.choice(self.running)
        run, state = one
        self.running.remove(one)
        arrived = state in {"complete", "refuse"} and self.rng.random() < 0.5
        if arrived:
            self.lost_note(*self.write(run, state))
        self.tale.kill(run["pid"])
        self.free.append(self.unused.pop())
        if not arrived:
            self.reap(run, pid=run["pid"] // 10 * 10)

    def reap(self, run: Entry, pid: int) -> None:
        """By its supervisor (pid), or by another worker; sometimes nobody lives to note it."""
        row = self.tale.rows[run["key"]]
        note = self.tale.reaped(run, pid=pid)
        if row["crashes"] == 3:
            row |= {"status": "buried", "finished": True}
            note["verdict"] = "buried"
        self.due[run["key"]] = self.tale.now
        if self.rng.random() < 0.3:
            self.tale.kill(59)  # whoever would have told
            self.lost_note(note)

    def members(self) -> tuple[str, list[Running]]:
        """A worker's name, and what it runs."""
        name = self.rng.choice([WORKERS[run["pid"]] for run, _ in self.running])
        return name, [one for one in self.running if WORKERS[one[0]["pid"]] == name]

    def group(self) -> None:
        """A worker with its supervisor; other pids take its place."""
        if not self.running or len(self.unused) < 3:
            return
        name, members = self.members()
        pids = [*self.free, *(run["pid"] for run, _ in members)]
        pids = [pid for pid in pids if WORKERS[pid] == name]
        self.tale.kill(*pids, group=True, supervisor=True, target=name)
        self.free = [pid for pid in self.free if pid not in pids]
        self.running = [one for one in self.running if one not in members]
        self.tale.wait(1.2)
        for run, _ in members:
            self.reap(run, pid=50)
        self.free.append(self.unused.pop())

    def stop(self) -> None:
        """A worker is frozen until others have its jobs; what it writes then is refused."""
        if not self.running:
            return
        name, members = self.members()
        pids = [run["pid"] for run, _ in members]
        others = [pid for pid in self.free if WORKERS[pid] != name]
        self.tale.stop(*pids)
        self.tale.wait(1.5)
        for run, _ in members:
            self.reap(run, pid=50)
        again = []
        for (run, _), pid in zip(members, others, strict=False):
            if self.tale.rows[run["key"]]["status"] == "ready":
                self.free.remove(pid)
                again.append([self.tale.start(run["key"], pid), "effect"])
        self.tale.cont(*pids)
        for one in members:
            self.wake(one)
        self.running += again

    def wake(self, one: Running) -> None:
        run, state = one
        if state == "effect" and not self.is_exactly_once(run):
            self.tale.effect(run)
        if state in {"effect", "ok", "fail"}:
            self.tale.end(run)
        fields = {"key": run["key"], "owner": run["owner"]}
        self.tale.note("lost", "info", run["pid"], **fields)
        self.leave(one)

    def outage(self) -> None:
        """Claims are lost, unless outcomes wait for its end."""
        self.tale.note("db_kill", "info", 2)
        self.tale.wait(2)
        self.tale.note("db_up", "info", 2)
        for one in [*self.running]:
            if self.rng.random() < 0.3:
                self.reap(one[0], pid=50)
                self.wake(one)

    def drain(self) -> None:
        self.faults = ()
        while self.running or any(row["status"] != "done" for row in self.tale.rows.values()):
            self.tale.wait(0.1)
            self.go_on()
            self.claim()
            self.kick()
            if not self.running and not self.ready() and not self.waits():
                break

    def waits(self) -> bool:
        return any(row["status"] in {"ready", "delayed"} for row in self.tale.rows.values())
