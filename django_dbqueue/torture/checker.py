"""Judges a history: a pure function from what was noted, and what is left, to verdicts."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from . import rules_of_rows, rules_of_runs
from .history import Event
from .job_history import NS, HistoryIndex
from .rules_of_runs import Check
from .verdicts import Figures, Report, Row, Settings, Verdict, Violation

__all__ = ["Figures", "Report", "Settings", "Verdict", "Violation", "check"]

Rule = Callable[[Check], Iterable[Violation]]
RULES: dict[str, tuple[str, Rule]] = {
    "whole": ("every event follows from one before", rules_of_runs.strays),
    "I1": ("what was enqueued is still there", rules_of_rows.lost),
    "I2": ("nothing runs, or is there, that was not enqueued", rules_of_rows.phantoms),
    "I3": ("nobody starts a job that another has", rules_of_runs.overlaps),
    "I4": ("a claim ends once, and nothing is accepted afterwards", rules_of_runs.zombies),
    "I5": ("attempts are counted, and limited", rules_of_rows.attempts),
    "I7": ("a job starts again for a reason only", rules_of_runs.duplicates),
    "I9": ("nothing starts before its time", rules_of_runs.early_starts),
    "I10": ("in the end all is finished", rules_of_rows.unfinished),
    "I11": ("no claim is left over; rows hold what their state says", rules_of_rows.misfits),
    "I12": ("a job is in one place", rules_of_rows.two_places),
    "I13": ("a dedup_key has one job", rules_of_rows.twins),
    "I15": ("nothing is claimed from a paused queue", rules_of_runs.paused_starts),
    "I16": ("the dead do nothing", rules_of_runs.dead_acts),
    "I17": ("the end is the end, unless somebody kicks", rules_of_runs.restarts),
    "done": ("what was completed stays so", rules_of_rows.undone),
    "reaped": ("nothing is taken from who is well", rules_of_runs.causeless_reaps),
    "charged": ("only what ran can have crashed", rules_of_runs.causeless_crashes),
    "crashes": ("crashes are counted", rules_of_rows.crashes),
    "buried": ("jobs are buried for a reason", rules_of_rows.causeless_burials),
    "errors": ("failures are recorded", rules_of_rows.unrecorded),
}
EFFECTS = "what is done had its effect, exactly once where that is declared"


def check(
    events: Sequence[Event],
    rows: Sequence[Row],
    effects: Sequence[Row],
    settings: Settings | None = None,
) -> Report:
    """A verdict per invariant, and figures.

    ``rows``: {place: "live" or "archive", key, mark, queue, status (its label), owner, attempts,
    crashes, errors: list, retry_at_past_seconds: float or None, finished: bool, dedup_key}, all
    rows of both tables; ``effects``: {mark} for each row that jobs wrote in their transactions.
    """
    checked = Check(HistoryIndex(events, rows), settings or Settings())
    verdicts = {
        name: Verdict(name, says, list(rule(checked))) for name, (says, rule) in RULES.items()
    }
    verdicts["I6"] = Verdict("I6", EFFECTS, list(rules_of_rows.effects(checked, effects)))
    figures = Figures(
        jobs=sum(enqueued.kind == "ok" for enqueued in checked.index.enqueued.values()),
        lost=len(verdicts["I1"].violations),
        unexpected=len(verdicts["I2"].violations),
        unexplained=len(verdicts["I7"].violations),
        overlaps=len(verdicts["I3"].violations),
        zombie_writes=len(verdicts["I4"].violations),
    )
    figures.duplicates = dict(Counter(r.cause for r in checked.repeats if r.cause))
    for kill in checked.faults.kills:
        hits = (name for name in ("group", "supervisor") if kill.event.get(name))
        hit = next(hits, "child")
        figures.kills[hit] = figures.kills.get(hit, 0) + 1
    _add_handovers(checked, figures)
    return Report(verdicts, figures)


def _add_handovers(check: Check, figures: Figures) -> None:
    """From the last kill that cut a job off, and nothing but kills, to its next start. Of what a
    second killed worker had fetched meanwhile, from when that one's claim was ended."""
    for repeat in check.repeats:
        first, second = repeat.first, repeat.second
        hits = [
            fault
            for fault in check.faults.all
            if fault.touches(first.t, second.t) and fault.hits(first)
        ]
        if first.end is not None or not hits or {fault.kind for fault in hits} != {"kill"}:
            continue
        is_alone = any(fault.hit_supervisor for fault in hits)
        fetched_in_vain = [
            event["t"]
            for event in repeat.job.accepted
            if event["op"] == "reaped" and event["owner"] != first.owner
            if first.t < event["t"] < second.t
        ]
        since = max([hits[-1].start, *fetched_in_vain])
        seconds = (second.t - since) / NS
        (figures.handover_alone if is_alone else figures.handover_supervised).append(seconds)
    figures.handover_alone.sort()
    figures.handover_supervised.sort()
