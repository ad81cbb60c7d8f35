"""Looks after queues from the command line."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand

from ...report import Report, take_report
from ...states import Status


class Command(BaseCommand):
    help = "Look after queues: dbqueue status [--json]"

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        status = verbs.add_parser("status", help="what waits, runs and failed, queue by queue")
        status.add_argument("--json", action="store_true", help="for programs")
        status.add_argument("--database", help="only the queue tables of this database alias")

    def handle(self, *args: Any, **options: Any) -> None:
        report = take_report(options["database"])
        if options["json"]:
            self.stdout.write(json.dumps(asdict(report), indent=2))
        else:
            self.stdout.write("\n".join(table_of_text(report)))


def table_of_text(report: Report) -> list[str]:
    """The report in aligned columns."""
    head = ["queue table", "queue", *Status.labels, "oldest", "paused"]
    lines = [
        [
            queue.table,
            queue.queue,
            *(capped(queue.counts[label], report.counted_up_to) for label in Status.labels),
            "" if queue.oldest_seconds is None else f"{queue.oldest_seconds:.0f} s",
            "paused" if [queue.table, queue.queue] in report.paused else "",
        ]
        for queue in report.queues
    ]
    widths = [max(len(row[i]) for row in [head, *lines]) for i in range(len(head))]
    text = [
        "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()
        for row in [head, *lines]
    ]
    if not lines:
        text = ["no jobs in any queue table"]
    return [*text, f"workers alive: {report.workers}"]


def capped(count: int, cap: int) -> str:
    return f"{count}+" if count >= cap else str(count)
