"""What is shown of workers, and of what they run, held against processes and claims."""

import re
from collections.abc import Iterator
from typing import Any

from django_dbqueue.states import Status
from tests.kit.figures.audit import SECOND, run
from tests.kit.figures.judge import Ledger, Truth
from tests.kit.figures.load import TIMEOUT_SECONDS, Fleet

STARTS = 15 * SECOND  # until a new process has beaten
NOTICED = 15 * SECOND  # the worker timeout, and a few beats
BY_THE_WAY = 2 * SECOND  # from what a child does until its supervisor's beat, or the other way
LONGEST = 6 * SECOND  # for which a job goes on that a person took away
DEAD = {"silent", "stopped"}


class FleetJudge:
    def __init__(self, ledger: Ledger, truth: Truth, fleet: Fleet, began: int) -> None:
        self.ledger, self.truth, self.fleet, self.began = ledger, truth, fleet, began

    def judge(self, document: dict[str, Any]) -> None:
        self.workers(document["workers"])
        beats = {one["worker"]: one["beat_seconds"] for one in document["workers"]}
        running = document["running"]
        for slot in running:
            if slot["table"] in self.truth.tables:
                self.slot(slot, int(beats[slot["worker"]] * SECOND))
        told = sum(one["running"] for one in document["workers"] if one["state"] not in DEAD)
        self.ledger.equal("running", len(running) + document["more_running"], told, "in all")
        slots = sum(one["slots"] for one in document["workers"] if one["state"] == "alive")
        for one in document["queues"]:
            if one["table"] in self.truth.tables:
                busy = sum(
                    (slot["table"], slot["queue"]) == (one["table"], one["queue"])
                    for slot in running
                )
                self.ledger.equal("busy slots", one["busy_slots"], busy, one["queue"])
                self.ledger.equal("slots", one["slots"], slots, one["queue"])

    def workers(self, rows: list[dict[str, Any]]) -> None:
        """On a busy machine a beat may be late, and says how old it is."""
        states: dict[int, list[str]] = {}
        for one in rows:
            if one["state"] == "silent":
                is_late = one["beat_seconds"] > TIMEOUT_SECONDS
                self.ledger.hold("silent workers", is_late, f"{one['name']} {one['beat_seconds']}")
            [pid] = re.findall(r" (\d+) \(", one["name"])
            states.setdefault(int(pid), []).append(one["state"])
        for pid, at in self.fleet.started.items():
            found = states.get(pid, [])
            ended_at = self.fleet.ended.get(pid)
            if ended_at is not None:
                if ended_at < self.truth.since - NOTICED:
                    self.ledger.hold("workers", "alive" not in found, f"{pid} has ended: {found}")
            elif at < self.truth.since - STARTS and not self.truth.is_quiet:
                is_known = "alive" in found or "silent" in found
                self.ledger.hold("workers", is_known, f"{pid} lives: {found}")

    def slot(self, slot: dict[str, Any], age: int) -> None:
        """At the beat its claim was held, or had just ended."""
        spans = list(self._claims(slot))
        first, last = self.began - age - BY_THE_WAY, self.truth.until - age + BY_THE_WAY
        is_right = any(begin <= last and (end is None or end >= first) for begin, end in spans)
        of_what = f"{slot['table']} {slot['key']} from {first} to {last}: claims {spans}"
        self.ledger.hold("runs now", is_right, of_what)

    def _claims(self, slot: dict[str, Any]) -> Iterator[tuple[int, int | None]]:
        table = self.truth.tables[slot["table"]]._meta.db_table
        sql = (
            "SELECT moved_at, was, now_is, owner, ended FROM figures_audit "
            "WHERE job = %s AND job_table = %s ORDER BY id"
        )
        begin = None
        for at, was, now_is, owner, ended in run(sql, [slot["key"], table]):
            if now_is == Status.CLAIMED:
                begin = int(at) if owner.startswith(slot["worker"]) else None
            elif was == Status.CLAIMED and begin is not None:
                yield begin, int(at) + (0 if ended else LONGEST)
                begin = None
        if begin is not None:
            yield begin, None
