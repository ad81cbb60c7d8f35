"""Jobs that started more than once: why, and whether they may."""

from collections.abc import Iterator
from dataclasses import dataclass

from .faults import OUTAGES, Faults
from .job_history import NS, HistoryIndex, JobHistory, Run
from .verdicts import Settings


@dataclass(frozen=True)
class Repeat:
    """Two starts of a job, one after the other, and the cause of the second, if there is one."""

    job: JobHistory
    first: Run
    second: Run
    cause: str | None

    @property
    def is_overlap(self) -> bool:
        return self.first.is_open_at(self.second.t)


class Repeats:
    """Finds the causes."""

    def __init__(self, index: HistoryIndex, faults: Faults, settings: Settings) -> None:
        self.index = index
        self.faults = faults
        self.late = int(settings.late * NS)
        self.buffered = int(settings.buffered * NS)
        self.all = [
            Repeat(job, first, second, self._cause(job, first, second))
            for job in index.jobs.values()
            for first, second in job.repeats()
        ]

    def __iter__(self) -> Iterator[Repeat]:
        return iter(self.all)

    def _cause(self, job: JobHistory, first: Run, second: Run) -> str | None:
        if first.owner == second.owner:
            return None
        until = second.t + self.late
        if any(e["t"] <= until for e in job.ended(first.owner, "failed")):
            return "failed"
        if first.end is not None and first.end["type"] == "fail" and first.end["t"] < second.t:
            return "failed"
        if fault := self.faults.that_harmed(first, first.t, second.t):
            return fault.kind
        if any(e["t"] <= until for e in job.ended(first.owner, "reaped")):
            return "reaped"
        if any(first.t <= e["t"] <= until for e in job.hands("release", "kick")):
            return "by hand"
        late = self.late_start(job, second)
        return f"{late}, then started late" if late else None

    def late_start(self, job: JobHistory, run: Run) -> str | None:
        """Why a run may have started after its claim was lost: it lay in a process that was cut
        off for a while."""
        if any(e["t"] <= run.t for e in job.ended(run.owner, "reaped")):
            return "reaped"
        for fault in self.faults.all:
            is_outage = fault.kind in {"stop", *OUTAGES}
            if is_outage and fault.touches(run.t - self.buffered, run.t) and fault.hits(run):
                return fault.kind
        return None
