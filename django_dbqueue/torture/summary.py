"""A torture's figures and verdicts, for people."""

from collections.abc import Sequence
from typing import Any

from .history import Event
from .options import Plan
from .verdicts import Report, percentile

SHOWN_MAX = 5
WIDTH = 32


def figures_text(plan: Plan, report: Report, events: Sequence[Event]) -> str:
    kills = [event for event in events if event["op"] == "kill"]
    stops = [event for event in events if event["op"] == "stop"]
    of_workers = [one for one in kills if str(one.get("target", "")).startswith("worker")]
    figures = report.figures
    explained = sum(figures.duplicates.values())
    causes = ", ".join(f"{cause} {count}" for cause, count in sorted(figures.duplicates.items()))
    lines: list[tuple[str, object]] = [
        ("seed", plan.seed),
        ("minutes", f"{plan.minutes:g}"),
        ("SIGKILLs", len(kills)),
        ("  of whole workers", sum(one["group"] for one in of_workers)),
        ("SIGSTOP cycles", len(stops)),
        ("  of whole workers", sum(one["group"] for one in stops)),
        ("server restarts", _count(events, "db_kill")),
        ("connections dropped", _count(events, "conn_kill")),
        ("read-only spells", _count(events, "read_only", on=True)),
        ("spells of silence", _count(events, "silence", on=True)),
        ("spells of deadlocks", _count(events, "deadlock")),
        ("old snapshots", _count(events, "snapshot", open=True)),
        ("jobs", figures.jobs),
        ("lost", figures.lost),
        ("unexpected", figures.unexpected),
        ("duplicates, explained", f"{explained} ({causes})" if causes else 0),
        ("duplicates, unexplained", figures.unexplained),
        ("overlapping claims", figures.overlaps),
        ("zombie writes", figures.zombie_writes),
        ("hand-over, supervisor alive", _spread(figures.handover_supervised)),
        ("hand-over, without", _spread(figures.handover_alone)),
    ]
    return "\n".join(f"{name:<{WIDTH}}{value}" for name, value in lines)


def _count(events: Sequence[Event], op: str, **more: Any) -> int:
    return sum(one["op"] == op and more.items() <= one.items() for one in events)


def _spread(seconds: list[float]) -> str:
    if not seconds:
        return "none"
    shares = (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
    spread = ", ".join(f"{name} {percentile(seconds, share):.2f} s" for name, share in shares)
    return f"{spread} of {len(seconds)}"


def verdicts_text(report: Report, troubles: Sequence[str]) -> str:
    lines: list[str] = []
    for verdict in report.verdicts.values():
        if verdict.holds:
            continue
        lines.append(f"{verdict.name} is broken {len(verdict.violations)} times: {verdict.says}")
        for violation in verdict.violations[:SHOWN_MAX]:
            lines.append(f"  {violation.words}")
            lines += [f"    {_event_text(event)}" for event in violation.events[:SHOWN_MAX]]
    lines += troubles
    return "\n".join(lines) or f"all {len(report.verdicts)} invariants hold"


def _event_text(event: Event) -> str:
    fields = " ".join(f"{k}={v}" for k, v in event.items() if k not in {"t", "op", "type"})
    if "t" not in event:
        return f"the row: {fields[:500]}"
    return f"{event['t'] / 1e9:.3f} {event['op']} {event['type']} {fields}"
