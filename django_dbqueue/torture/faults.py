"""The faults that were injected, and whom each could harm."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .history import Event
from .job_history import NS, Run
from .verdicts import Settings

FOREVER = 2**63
OUTAGES = {"db_kill": "db_up", "read_only": "read_only", "silence": "silence"}
FAULT_OPS = {"kill", "term", "stop", "cont", "conn_kill", *OUTAGES, *OUTAGES.values()}


@dataclass(frozen=True)
class Fault:
    """It lasted from ``start`` to ``end``; of everybody's concern without a victim."""

    kind: str
    start: int
    end: int
    event: Event
    everybodys: bool = False

    @property
    def hit_supervisor(self) -> bool:
        return bool(self.event.get("supervisor") or self.event.get("group"))

    def hits(self, run: Run) -> bool:
        if self.everybodys or run.pid in self.event.get("pids", ()):
            return True
        return self.hit_supervisor and self.event.get("target") in {None, run.who}

    def touches(self, start: int, end: int) -> bool:
        return self.start <= end and self.end >= start


class Faults:
    """All of them, in the order of time."""

    def __init__(self, events: Iterable[Event], settings: Settings) -> None:
        self.late = int(settings.late * NS)
        # A worker that was stopped right before it was to beat is silent for longer.
        patience = settings.worker_timeout - settings.beat_interval
        found = list(_faults_of([event for event in events if event["op"] in FAULT_OPS]))
        self.all = [f for f in found if f.kind != "stop" or f.end - f.start >= patience * NS]
        self.kills = [fault for fault in self.all if fault.kind == "kill"]

    def that_harmed(self, run: Run, start: int, end: int) -> Fault | None:
        """The last one to hit a run within a time; events may be noted late."""
        found = [f for f in self.all if f.touches(start, end + self.late) and f.hits(run)]
        return found[-1] if found else None

    def of_supervisors(self, start: int, end: int) -> list[Fault]:
        """Those after which nobody may know what had been started."""
        return [
            fault
            for fault in self.all
            if (fault.everybodys or fault.hit_supervisor or fault.kind == "stop")
            and fault.touches(start, end + self.late)
        ]


def _faults_of(events: list[Event]) -> Iterator[Fault]:
    for number, event in enumerate(events):
        later, op = events[number + 1 :], event["op"]
        if op in {"kill", "term"}:
            yield Fault(op, event["t"], event["t"], event)
        elif op == "conn_kill":
            yield Fault(op, event["t"], event["t"], event, everybodys=True)
        elif op == "stop":
            pids = set(event["pids"])
            over = (e for e in later if e["op"] in {"cont", "kill"} and pids & {*e.get("pids", ())})
            yield Fault(op, event["t"], next((int(e["t"]) for e in over), FOREVER), event)
        elif op in OUTAGES and event.get("on", True):
            over = (e for e in later if e["op"] == OUTAGES[op] and not e.get("on"))
            end = next((int(e["t"]) for e in over), FOREVER)
            yield Fault(op, event["t"], end, event, everybodys=True)
