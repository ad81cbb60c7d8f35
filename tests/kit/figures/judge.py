"""What pages and commands show, held against the real counts of the same moment."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django_dbqueue.metrics.counting import OPEN, PAUSE_MIN
from django_dbqueue.models import Job, TableCount
from django_dbqueue.models.minute import SUMS
from django_dbqueue.states import Status
from tests.kit.figures.audit import (
    SECOND,
    End,
    Ends,
    Place,
    bounds_at,
    counts,
    moves_since,
    now,
)
from tests.kit.figures.load import Kill

UNWRITTEN = 10 * SECOND  # what a process adds up until it writes
SLACK = UNWRITTEN + 10 * SECOND  # in which a busy process comes to write
STATEMENT = 2 * SECOND  # from the moment that a trigger writes down to the commit
LABELS = {status.label: int(status) for status in Status}
ENDINGS = {"completed": ("completed",), "failed": ("failed", "buried"), "buried": ("buried",)}
MINUTE = 60 * SECOND


@dataclass
class Ledger:
    """How many figures were held against real counts, by kind, and which of them were off."""

    compared: Counter[str] = field(default_factory=Counter)
    off: list[str] = field(default_factory=list)
    # With all workers stopped: what had ended within the hour, what of it is not counted, and what
    # may not be, since it ended in the last seconds of one that was killed.
    ended: Counter[str] = field(default_factory=Counter)
    missing: Counter[str] = field(default_factory=Counter)
    at_risk: Counter[str] = field(default_factory=Counter)

    def hold(self, kind: str, is_right: bool, text: str) -> None:
        self.compared[kind] += 1
        if not is_right:
            self.off.append(f"{kind}: {text}")

    def equal(self, kind: str, shown: object, real: object, of_what: str) -> None:
        self.hold(kind, shown == real, f"{of_what}: {shown} is shown, {real} is real")

    def within(self, kind: str, shown: float, least: float, most: float, of_what: str) -> None:
        is_right = least <= shown <= most
        self.hold(kind, is_right, f"{of_what}: {shown} is shown, {least} to {most} is real")


@dataclass
class Truth:
    """Read in one snapshot with what is shown: ``since`` and ``until`` the database's clock before
    and after; ``is_quiet``: all workers have stopped, and have written what they had counted."""

    models: Sequence[type[Job]]
    kills: Sequence[Kill]
    since: int
    is_quiet: bool = False
    until: int = 0

    def __post_init__(self) -> None:
        self.tables = {model._meta.label_lower: model for model in self.models}
        self.counts: dict[Place, int] = {}
        for model in self.models:
            self.counts |= counts(model)
        self.ends, self.at_risk = Ends.read(), Ends()
        for end in self._unwritten():
            self.at_risk.add(end)

    def _unwritten(self) -> Iterator[End]:
        """Of those who died within some seconds."""
        died: dict[str, list[int]] = {}
        for kill in self.kills:
            died.setdefault(kill.worker, []).append(kill.at)
        for end in self.ends.all:
            if end.by_crash:
                died.setdefault(end.worker, []).append(end.at)
        moments = {worker: sorted(found) for worker, found in died.items()}
        whole = sorted(kill.at for kill in self.kills if kill.whole)
        for end in self.ends.all:
            # Who reaped it, and died, the row does not say.
            by_reaper = whole if end.by_crash or end.how != "completed" else []
            for found in (moments.get(end.worker, []), by_reaper):
                if _has_one(found, end.at - SECOND, end.at + SLACK + SECOND):
                    yield end
                    break

    def lost(self, how: Sequence[str], **wanted: Any) -> int:
        """How many ends at the most only those knew who were killed before they wrote."""
        return self.at_risk.count(0, self.until or now(), how=how, **wanted)

    @property
    def turned(self) -> bool:
        """Whether another minute has begun while it was looked."""
        return self.since // MINUTE != self.until // MINUTE

    def ended(self, how: Sequence[str], since: int, **wanted: Any) -> tuple[int, int]:
        """The least, and the most, that can have been written of what ended since then."""
        early = since - SLACK - (5 * MINUTE if self.turned else 0)
        most = self.ends.count(early, self.until, how=how, **wanted)
        unwritten = 0 if self.is_quiet else SLACK
        least = self.ends.count(since, self.since - unwritten, how=how, **wanted)
        return least - self.lost(how, **wanted), most


class Judge:
    """Holds one document, as ``queues.json`` has it, against the truth; it was made between
    ``began``, by the database's clock, and the truth's ``until``."""

    def __init__(self, ledger: Ledger, truth: Truth, began: int) -> None:
        self.ledger, self.truth, self.began = ledger, truth, began

    def judge(self, document: dict[str, Any]) -> None:
        self.queues(document["queues"])
        for one in self._ours(document["queues"]):
            self.endings(one)
            self.due(one)
            self.oldest(one)
        self.minutes(document["last_hour"], _moment(document) // MINUTE)
        for one in self._ours(document["failures"]):
            self.failure(one)
        self.all_failures(document)
        for label, due in document["due"].items():
            if label in self.truth.tables:
                self.histogram(label, due)

    def _ours(self, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        return [one for one in rows if one["table"] in self.truth.tables]

    def _name(self, label: str) -> str:
        return self.truth.tables[label]._meta.db_table

    def queues(self, rows: Sequence[dict[str, Any]]) -> None:
        """Also of ``dbqueue status --json``."""
        seen: set[Place] = set()
        for one in self._ours(rows):
            for state, shown in one["counts"].items():
                place = self._name(one["table"]), one["queue"], LABELS[state]
                seen.add(place)
                age = one["counted_seconds_ago"].get(state)
                self.count(place, shown, state in one["at_least"], age)
        open_states = set(LABELS.values()) - {int(Status.DONE)}
        missing = {place for place in self.truth.counts if place[2] in open_states} - seen
        self.ledger.equal("queues that have jobs", sorted(missing), [], "not shown")

    def count(self, place: Place, shown: int, is_at_least: bool, age: float | None) -> None:
        real = self.truth.counts.get(place, 0)
        if is_at_least:
            self.ledger.within("jobs, at least", shown, 0, real, str(place))
        elif age is None:
            self.ledger.equal("jobs, now", shown, real, str(place))
        else:
            since = self.began - int(age * SECOND) - STATEMENT
            end = self._end_of_count(place[0])
            until = min(self.truth.until, end + STATEMENT)
            bounds = bounds_at(self.truth.counts, moves_since(since), since, until)
            least, most = bounds.get(place, (0, 0))
            of_what = f"{place} from {since} to {until}"
            if not least <= shown <= most:
                near = moves_since(since - 10 * SECOND)
                of_what += (
                    f", moves {[one for one in near if place in one[1:] and one[0] <= until]}"
                )
            self.ledger.within("jobs, as of their age", shown, least, most, of_what)

    def _end_of_count(self, job_table: str) -> int:
        """At the latest; the next one may have begun, after its pause."""
        row = TableCount.objects.get(job_table=job_table, part=OPEN)
        if row.is_counting:
            return _micros(row.began_at) - int(PAUSE_MIN[OPEN] * SECOND)
        return _micros(row.touched_at)

    def endings(self, one: dict[str, Any]) -> None:
        minute = self.truth.until // MINUTE - 59
        known = {"table": self._name(one["table"]), "queue": one["queue"]}
        for name in SUMS:
            least, most = self.truth.ended(ENDINGS[name], minute * MINUTE, **known)
            shown = one[f"{name}_last_hour"]
            self.ledger.within(f"{name}, last hour", shown, least, most, str(known))
            if self.truth.is_quiet:
                self.ledger.missing[name] += most - shown
                self.ledger.at_risk[name] += most - least
                self.ledger.ended[name] += most

    def due(self, one: dict[str, Any]) -> None:
        model: Any = self.truth.tables[one["table"]]
        delayed = model._base_manager.filter(status=Status.DELAYED, queue=one["queue"])
        times = [_micros(at) for at in delayed.values_list("retry_at", flat=True) if at]
        times.sort()
        least, most = (bisect_right(times, at) for at in (self.truth.since, self.truth.until))
        self.ledger.within("due now", one["due"], least, most, one["queue"])
        shown = one["next_due_in_seconds"]
        if shown is not None:
            first = bisect_left(times, self.truth.until)
            after = times[first] - self.truth.until if first < len(times) else 0
            seconds = (self.truth.until - self.truth.since) / SECOND + 0.1
            is_right = abs(shown - after / SECOND) <= seconds or shown <= seconds
            self.ledger.hold("next due", is_right, f"{one['queue']}: {shown}, {after / SECOND}")

    def oldest(self, one: dict[str, Any]) -> None:
        model: Any = self.truth.tables[one["table"]]
        ready = model._base_manager.filter(status=Status.READY, queue=one["queue"])
        made = [_micros(at) for at in ready.values_list("created_at", flat=True)]
        shown, of_what = one["oldest_seconds"], f"{one['table']} {one['queue']}"
        if not made or shown is None:
            self.ledger.equal("oldest waits", shown is None, not made, of_what)
            return
        least, most = ((at - min(made)) / SECOND for at in (self.truth.since, self.truth.until))
        # Of those of one priority it is the one with the lowest key, made next to others.
        self.ledger.within("oldest waits", shown, round(least - 1, 1), most + 0.1, of_what)

    def minutes(self, lanes: dict[str, list[float]], last: int) -> None:
        """What is written by the end of a minute had ended by then, and lately. Where one began
        during the look, nobody knows which is the last."""
        if self.truth.turned:
            return
        for lane, how in (("done", ENDINGS["completed"]), ("failed", ENDINGS["failed"])):
            lost, sum_of_them = self.truth.lost(how), 0.0
            first = (last - 59) * MINUTE
            for place, shown in enumerate(lanes[lane][:-1]):
                sum_of_them += shown
                end = first + (place + 1) * MINUTE
                most = self.truth.ends.count(first - SLACK, end, how=how)
                least = self.truth.ends.count(first, end - SLACK, how=how) - lost
                kind = f"{lane}, minute by minute"
                self.ledger.within(kind, sum_of_them, least, most, f"until {end}")

    def failure(self, one: dict[str, Any]) -> None:
        known = {"table": self._name(one["table"]), "failure": one["failure"]}
        minute = self.truth.until // MINUTE
        for name, minutes in (("last_hour", 60), ("last_day", 24 * 60)):
            since = (minute - minutes) // 5 * 5 * MINUTE  # all five minutes that reach into it
            least, most = self.truth.ended(ENDINGS["failed"], since, **known)
            self.ledger.within(f"failures, {name}", one[name], least, most, one["failure"])

    def all_failures(self, document: dict[str, Any]) -> None:
        """Those that are buried, or are tried again."""
        shown = {(one["table"], one["failure"]): one for one in self._ours(document["failures"])}
        until = datetime.fromisoformat(document["at"]["default"])
        for label, model in self.truth.tables.items():
            real: dict[str, Counter[str]] = {}
            rows: Any = model._base_manager.exclude(failure=None)
            for failure, failed_at in rows.values_list("failure", "failed_at"):
                found = real.setdefault(failure, Counter())
                if failed_at is None or failed_at <= until:
                    found["retrying" if failed_at is None else "buried"] += 1
            for failure, found in real.items():
                one = shown.get((label, failure), {"buried": 0, "retrying": 0, "at_least": False})
                for name in ("buried", "retrying"):
                    of_what = f"{label} {failure}"
                    self.ledger.equal(f"failures, {name}", one[name], found[name], of_what)

    def histogram(self, label: str, due: dict[str, Any]) -> None:
        model: Any = self.truth.tables[label]
        delayed = model._base_manager.filter(status=Status.DELAYED).exclude(retry_at=None)
        times = sorted(delayed.values_list("retry_at", flat=True))
        for lane in ("hour", "day"):
            before = 0
            for shown, end in zip(due[lane], due["until"][lane], strict=True):
                place = bisect_left(times, datetime.fromisoformat(end))
                real = min(place - before, due["most"] + 1)
                before = place
                self.ledger.equal(f"due, by {lane}", shown, real, f"{label} until {end}")
        later = min(len(times) - before, due["most"] + 1)
        self.ledger.equal("due, later", due["later"], later, label)


def _has_one(moments: Sequence[int], since: int, until: int) -> bool:
    return bisect_left(moments, since) < bisect_right(moments, until)


def _micros(moment: datetime) -> int:
    return int(moment.timestamp() * SECOND)


def _moment(document: dict[str, Any]) -> int:
    return _micros(datetime.fromisoformat(document["at"]["default"]))


def truth_of(
    models: Sequence[type[Job]], kills: Sequence[Kill], *, is_quiet: bool = False
) -> Truth:
    return Truth(models, kills, now(), is_quiet)
