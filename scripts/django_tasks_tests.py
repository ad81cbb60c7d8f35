#!/usr/bin/env python3
"""Run Django's own tests of tasks on Django 6.0 and 6.1: as they are, with this package installed,
with our Dummy and Immediate backends, and re-pointed at our backend; and our own tests of tasks.

    django_tasks_tests.py [VERSION...]

They are in the source distribution of each Django, which pip fetches once, into build/.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from mail_versions import environments
from pytest_runs import ROOT

BUILD = ROOT / "build"
OURS = "django_dbqueue.tasks.backends.DatabaseBackend"
Edit = tuple[str, str, str]  # file, what it says, what it is to say
INSTALLED: Edit = (
    "runtests.py",
    "ALWAYS_INSTALLED_APPS = [",
    'ALWAYS_INSTALLED_APPS = ["django_dbqueue", "django_dbqueue.tasks",',
)
IN_TESTS: tuple[Edit, ...] = (
    INSTALLED,
    *(
        (
            f"tasks/test_{file}.py",
            f'"django.tasks.backends.{module}',
            '"django_dbqueue.tasks.backends',
        )
        for file, module in (
            ("tasks", "dummy"),
            ("tasks", "immediate"),
            ("dummy_backend", "dummy"),
            ("immediate_backend", "immediate"),
        )
    ),
)
RE_POINTED: tuple[Edit, ...] = (
    ("tasks/test_tasks.py", "django.tasks.backends.dummy.DummyBackend", OURS),
    # Ours is in a database.
    ("tasks/test_tasks.py", "(SimpleTestCase)", "(TestCase)"),
    ("tasks/test_tasks.py", "import SimpleTestCase,", "import TestCase,"),
    # A table has no list of results.
    ("tasks/test_tasks.py", "default_task_backend.clear()", "pass"),
    INSTALLED,
)


def sources(python: str, edits: tuple[Edit, ...] = ()) -> Path:
    """The folder of the tests of exactly this environment's Django, with these edits."""
    asked = [python, "-c", "import django; print(django.get_version())"]
    version = subprocess.run(asked, capture_output=True, check=True, text=True).stdout.strip()
    name = f"django-{version}"
    archive = BUILD / f"{name}.tar.gz"
    if not archive.exists():
        command = [python, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "django"]
        subprocess.run([*command, "--dest", str(BUILD), f"Django=={version}"], check=True)
    folder = BUILD / "django-tasks-tests" / name
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(archive) as tar:
        members = [one for one in tar.getmembers() if one.name.startswith(f"{name}/tests/")]
        tar.extractall(folder.parent, members, filter="data")
    for file, old, new in edits:
        path = folder / "tests" / file
        text = path.read_text()
        if old not in text:
            raise SystemExit(f"{file} of {name} does not hold {old!r}")
        path.write_text(text.replace(old, new))
    return folder / "tests"


def run(python: str, folder: Path, label: str) -> None:
    """How many of its tests pass, and the reason of each that does not."""
    command = [python, "runtests.py", "--parallel=1", "-v0", label]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False, text=True)
    told = done.stderr + done.stdout
    count = re.search(r"Ran (\d+) tests?", told)
    names = re.findall(r"^(?:FAIL|ERROR): (\w+)", told, re.MULTILINE)
    reasons = re.findall(r"^(\w+(?:\.\w+)*(?:Error|Exception|Operation)\b.*)$", told, re.MULTILINE)
    total = int(count[1]) if count else 0
    print(f"  {label}: {total - len(names)} of {total} pass", flush=True)
    for name, reason in zip(names, reasons, strict=False):
        print(f"    {name}: {reason[:160]}")
    if not count:
        print(told)


def run_ours(python: str) -> int:
    """1 where one fails, else 0."""
    env = os.environ | {"DBQUEUE_TESTS": "1"}
    command = [python, "-m", "pytest", "-p", "no:cacheprovider", "tests/tasks"]
    return int(subprocess.run(command, cwd=ROOT, env=env, check=False).returncode != 0)


def main(versions: list[str]) -> int:
    failed = 0
    for version, python in environments():
        if version == "5.2" or (versions and version not in versions):
            continue
        print(f"Django {version}, as shipped", flush=True)
        run(python, sources(python), "tasks")
        print(f"Django {version}, with our backends for tests", flush=True)
        run(python, sources(python, IN_TESTS), "tasks")
        print(f"Django {version}, at our backend", flush=True)
        run(python, sources(python, RE_POINTED), "tasks.test_tasks")
        print(f"Django {version}, our own tests of tasks", flush=True)
        failed += run_ours(python)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
