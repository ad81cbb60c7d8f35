"""``dbqueue check``: its options, and what it says."""

import json
from argparse import ArgumentParser, ArgumentTypeError
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError

from ...diagnose.check import CheckResult, Unchecked, Violation, check_integrity

MOST_ROWS = 10_000


class Unsound(CommandError):
    """There are findings: ``text`` lists them."""

    def __init__(self, text: str, summary: str) -> None:
        super().__init__(summary, returncode=1)
        self.text = text


def add_check_arguments(check: ArgumentParser) -> None:
    check.add_argument(
        "--rows", type=number_of_rows, default=20, help="most rows shown of a kind, 20 by default"
    )


def number_of_rows(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_ROWS:
        raise ArgumentTypeError(f"{text!r} is no number between 1 and {MOST_ROWS}")
    return int(text)


def check(options: dict[str, Any]) -> str:
    """One line where all is well; else ``Unsound``, for exit code 1."""
    examined = check_integrity(options["database"], options["rows"])
    text = json.dumps(asdict(examined), indent=2) if options["json"] else check_text(examined)
    if examined.is_clean:
        return text
    raise Unsound(text, summary(examined))


def check_text(examined: CheckResult) -> str:
    if examined.is_clean:
        return f"{examined.tables} queue tables: nothing found"
    several = len({one.database for one in examined.findings}) > 1
    return "\n".join(
        [
            *(finding_text(finding, several) for finding in examined.findings),
            *(f"{more}: there are more; --rows shows them" for more in examined.more),
            *(map(unchecked_text, examined.unchecked)),
        ]
    )


def finding_text(finding: Violation, several: bool) -> str:
    place = f"{finding.table} {finding.id}" + (f" on {finding.database}" if several else "")
    return f"{place} {finding.what}\n    {finding.advice}"


def unchecked_text(one: Unchecked) -> str:
    place = f"{one.table} on {one.database}" if one.table else f"database {one.database}"
    return f"{place} was not checked: {one.why}"


def summary(examined: CheckResult) -> str:
    count = f"{len(examined.findings)}{'+' if examined.more else ''} findings"
    missing = len(examined.unchecked)
    left_out = f"; {missing} could not be checked" if missing else ""
    return f"{count} in {examined.tables} queue tables{left_out}"
