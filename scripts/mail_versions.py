#!/usr/bin/env python3
"""Prove mail on every version of Django, each in an environment of its own.

    mail_versions.py [PYTEST ARGUMENTS...]

The tests of stored mail run at full length in each; then each stores its samples, and each reads
what all have stored; and Django's own tests of mail backends run against ours. SQLite will do: what
is stored is text.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator

from newest_python import python_candidates, really_starts, venv_with
from pytest_runs import ROOT, Result, Suite, run_pytest

DJANGOS = {"5.2": "Django>=5.2,<5.3", "6.0": "Django>=6.0,<6.1", "6.1": "Django>=6.1,<6.2"}
TESTS = ("codec", "refusals", "versions", "fidelity")
NEEDS_PYTHON = (3, 12)  # from Django 6.0 on


def environments() -> Iterator[tuple[str, str]]:
    """(version of Django, its Python)"""
    newer = sys.executable if sys.version_info[:2] >= NEEDS_PYTHON else None
    newer = newer or next((found for _, found in python_candidates() if really_starts(found)), None)
    for version, requirement in DJANGOS.items():
        python = sys.executable if version == "5.2" else newer
        if python is None:
            raise SystemExit(f"Django {version} needs Python 3.12: none was found")
        yield version, venv_with(ROOT / f".venv-django-{version}", python, requirement)


def test(version: str, python: str, arguments: list[str]) -> Result:
    files = [f"tests/mail/test_{name}.py" for name in TESTS]
    suite = Suite(f"Django {version}", python=python)
    return run_pytest(suite, [*files, "--full", "-s", *arguments]).not_empty()


def exchange(pythons: list[str]) -> int:
    """Store in each, read in each; how many could not."""
    with tempfile.TemporaryDirectory() as folder:
        stored = [call(python, folder) for python in pythons]
        return sum(stored) + sum(call(python, "--read", folder) for python in pythons)


def call(python: str, *arguments: str) -> int:
    command = [python, "-m", "tests.kit.mail_stored", *arguments]
    return int(subprocess.run(command, cwd=ROOT, check=False).returncode != 0)


def djangos_own(python: str) -> int:
    """Whether Django's own tests of mail backends fail: 1, else 0."""
    command = [python, "scripts/django_mail_tests.py", "-q"]
    return int(subprocess.run(command, cwd=ROOT, check=False).returncode != 0)


def main(arguments: list[str]) -> int:
    found = list(environments())
    results = [test(version, python, arguments) for version, python in found]
    print("\nstored under one version, read under another:", flush=True)
    failed = exchange([python for _, python in found])
    print("", flush=True)
    failed += sum(djangos_own(python) for _, python in found)
    print("\ntests per version:", *results, sep="\n  ", flush=True)
    return 1 if failed or any(result.failed for result in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
