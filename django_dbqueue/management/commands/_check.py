"""``dbqueue check``: its options, and what it says."""

import json
from argparse import ArgumentParser, ArgumentTypeError
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError

from ...diagnose.check import CheckResult, check_integrity

ROWS_MAX = 10_000


class ProblemsFound(CommandError):
    """There are findings: ``text`` lists them."""

    def __init__(self, text: str, summary: str) -> None:
        super().__init__(summary, returncode=1)
        self.text = text


def add_check_arguments(check: ArgumentParser) -> None:
    check.add_argument(
        "--rows", type=number_of_rows, default=20, help="most rows shown of a kind, 20 by default"
    )


def number_of_rows(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= ROWS_MAX:
        raise ArgumentTypeError(f"{text!r} is no number between 1 and {ROWS_MAX}")
    return int(text)


def check(options: dict[str, Any]) -> str:
    """One line where all is well; else ``ProblemsFound``, for exit code 1."""
    examined = check_integrity(options["database"], options["rows"])
    text = json.dumps(asdict(examined), indent=2) if options["json"] else check_text(examined)
    if examined.is_clean:
        return text
    count = f"{len(examined.findings)}{'+' if examined.more else ''} findings"
    missing = len(examined.unchecked)
    left_out = f"; {missing} could not be checked" if missing else ""
    raise ProblemsFound(text, f"{count} in {examined.tables} queue tables{left_out}")


def check_text(examined: CheckResult) -> str:
    if examined.is_clean:
        return f"{examined.tables} queue tables: nothing found"
    several = len({one.database for one in examined.findings}) > 1
    lines = []
    for one in examined.findings:
        place = f"{one.table} {one.id}" + (f" on {one.database}" if several else "")
        lines += [f"{place} {one.what}", f"    {one.advice}"]
    lines += [f"{more}: there are more; --rows shows them" for more in examined.more]
    for left in examined.unchecked:
        place = f"{left.table} on {left.database}" if left.table else f"database {left.database}"
        lines.append(f"{place} was not checked: {left.why}")
    return "\n".join(lines)
