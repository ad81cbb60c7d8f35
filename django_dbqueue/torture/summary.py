"""A torture's figures and verdicts, for people."""

from collections.abc import Iterable, Sequence
from typing import Any

from .history import Event
from .options import Plan
from .verdicts import Report, Verdict, percentile

SHOWN_MAX = 5
WIDTH = 32


def figures_text(plan: Plan, report: Report, events: Sequence[Event]) -> str:
    lines = [*_faults(plan, events), *_figures(report)]
    return "\n".join(f"{name:<{WIDTH}}{value}" for name, value in lines)


def _faults(plan: Plan, events: Sequence[Event]) -> Iterable[tuple[str, object]]:
    kills = [event for event in events if event["op"] == "kill"]
    stops = [event for event in events if event["op"] == "stop"]
    of_workers = [one for one in kills if str(one.get("target", "")).startswith("worker")]
    yield "seed", plan.seed
    yield "minutes", f"{plan.minutes:g}"
    yield "SIGKILLs", len(kills)
    yield "  of whole workers", sum(one["group"] for one in of_workers)
    yield "SIGSTOP cycles", len(stops)
    yield "  of whole workers", sum(one["group"] for one in stops)
    for name, op in (("server restarts", "db_kill"), ("connections dropped", "conn_kill")):
        yield name, _count(events, op)
    yield "read-only spells", _count(events, "read_only", on=True)
    yield "spells of silence", _count(events, "silence", on=True)
    yield "spells of deadlocks", _count(events, "deadlock")
    yield "old snapshots", _count(events, "snapshot", open=True)


def _count(events: Sequence[Event], op: str, **more: Any) -> int:
    return sum(one["op"] == op and more.items() <= one.items() for one in events)


def _figures(report: Report) -> Iterable[tuple[str, object]]:
    figures = report.figures
    explained = sum(figures.duplicates.values())
    causes = ", ".join(f"{cause} {count}" for cause, count in sorted(figures.duplicates.items()))
    yield "jobs", figures.jobs
    yield "lost", figures.lost
    yield "unexpected", figures.unexpected
    yield "duplicates, explained", f"{explained} ({causes})" if causes else 0
    yield "duplicates, unexplained", figures.unexplained
    yield "overlapping claims", figures.overlaps
    yield "zombie writes", figures.zombie_writes
    yield "hand-over, supervisor alive", _spread(figures.handover_supervised)
    yield "hand-over, without", _spread(figures.handover_alone)


def _spread(seconds: list[float]) -> str:
    if not seconds:
        return "none"
    shares = (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
    spread = ", ".join(f"{name} {percentile(seconds, share):.2f} s" for name, share in shares)
    return f"{spread} of {len(seconds)}"


def verdicts_text(report: Report, troubles: Sequence[str]) -> str:
    red = [verdict for verdict in report.verdicts.values() if not verdict.holds]
    lines = [line for verdict in red for line in _violations(verdict)] + list(troubles)
    if lines:
        return "\n".join(lines)
    return f"all {len(report.verdicts)} invariants hold"


def _violations(verdict: Verdict) -> Iterable[str]:
    violations = verdict.violations
    yield f"{verdict.name} is broken {len(violations)} times: {verdict.says}"
    for violation in violations[:SHOWN_MAX]:
        yield f"  {violation.words}"
        for event in violation.events[:SHOWN_MAX]:
            yield f"    {_event_text(event)}"


def _event_text(event: Event) -> str:
    fields = " ".join(f"{k}={v}" for k, v in event.items() if k not in {"t", "op", "type"})
    if "t" not in event:
        return f"the row: {fields[:500]}"
    return f"{event['t'] / 1e9:.3f} {event['op']} {event['type']} {fields}"
