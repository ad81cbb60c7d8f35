#!/usr/bin/env python3
"""Run Django's own tests of mail backends against the queue's.

    django_mail_tests.py [PYTEST ARGUMENTS...]

They are in the source distribution of the Django that is installed; pip fetches it once, into
build/.
"""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import django

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"


def sources() -> Path:
    """The folder of the tests of exactly this Django."""
    version = django.get_version()
    name = f"django-{version}"
    folder = BUILD / name / "tests"
    if not folder.is_dir():
        unpack(archive(name, version), name)
    return folder


def archive(name: str, version: str) -> Path:
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps"]
    command += ["--no-binary", "django", "--dest", str(BUILD), f"Django=={version}"]
    path = BUILD / f"{name}.tar.gz"
    if not path.exists():
        subprocess.run(command, check=True)
    return path


def unpack(path: Path, name: str) -> None:
    wanted = f"{name}/tests/mail/"
    with tarfile.open(path) as tar:
        members = [each for each in tar.getmembers() if each.name.startswith(wanted)]
        tar.extractall(BUILD, members, filter="data")


def main(arguments: list[str]) -> int:
    env = os.environ | {"DJANGO_TESTS": str(sources()), "DBQUEUE_TESTS": "1"}
    print(f"Django {django.get_version()}: its tests of mail backends, against ours", flush=True)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "tests/kit/django_mail_tests.py",
    ]
    return subprocess.run([*command, *arguments], cwd=ROOT, env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
