"""The newest Python on this machine, in a virtual environment with the newest Django.

newest_python.py    prints where it is
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from pytest_runs import ROOT

VENV = ROOT / ".venv-newest"
DJANGO = "Django>=6.1,<6.2"
NEWER_PYTHONS = ((3, 14), (3, 13), (3, 12))


def newest_python() -> tuple[str, str] | None:
    """Its name with Django's, and its path."""
    for (major, minor), python in python_candidates():
        if really_starts(python):
            django = re.sub(r"[^\d.].*", "", DJANGO.partition(">=")[2])
            return f"Python {major}.{minor}, Django {django}", python
    return None


def python_candidates() -> Iterator[tuple[tuple[int, int], str]]:
    """Newer Pythons, the newest first, on the PATH and among pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    for version in NEWER_PYTHONS:
        if version <= sys.version_info[:2]:
            continue
        name = f"python{version[0]}.{version[1]}"
        on_path = shutil.which(name)
        if on_path:
            yield version, on_path
        for found in sorted(pyenv.glob(f"*/bin/{name}"), reverse=True):
            yield version, str(found)


def really_starts(python: str) -> bool:
    """A shim may exist without its Python, and a Python without the modules that we need."""
    modules = "import ensurepip, sqlite3, ssl, venv"
    try:
        done = subprocess.run([python, "-c", modules], capture_output=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def venv_with(folder: Path, python: str, django: str) -> str:
    """The Python of a virtual environment with this Django; kept until setup.cfg changes."""
    own_python = folder / "bin" / "python"
    stamp = folder / "stamp"
    wanted = hashlib.sha256(
        f"{python} {django} {(ROOT / 'setup.cfg').read_text()}".encode()
    ).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
        install = [str(own_python), "-m", "pip", "install", "-q"]
        subprocess.run([*install, "-e", ".[test,postgresql]", django], cwd=ROOT, check=True)
        stamp.write_text(wanted)
    return str(own_python)


def main() -> int:
    found = newest_python()
    print(found[1] if found else sys.executable)
    return 0


if __name__ == "__main__":
    sys.exit(main())
