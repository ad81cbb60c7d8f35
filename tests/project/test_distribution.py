"""What is released: the sdist can be tested, the wheel holds the package, and either can be used.

pip fetches what building and installing need, as it does for users.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.processes import ROOT

# It asks a package index for what building needs: not for the inner loop, nor for every run.
pytestmark = [pytest.mark.any_database, pytest.mark.process, pytest.mark.nightly]

# What a checkout holds that nobody has written.
MADE = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "*.sqlite3*", "results")
WRITTEN = ("benchmarks", "django_dbqueue", "docs", "scripts", "testproject", "tests")

SETTINGS = """
from pathlib import Path
SECRET_KEY = "for-a-test"
INSTALLED_APPS = ["django_dbqueue", "kiosk"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": Path(__file__).parent / "db.sqlite3",
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL;",
        },
    }
}
"""
MODELS = """
from pathlib import Path
from django.db import models
from django_dbqueue.models import Job

class Greeting(Job):
    name = models.CharField(max_length=100)

    def run(self):
        with Path("greeted").open("a") as file:
            file.write(self.name + "\\n")
"""
ENQUEUE = """
import django_dbqueue
from kiosk.models import Greeting
for name in ("Anna", "Bert"):
    Greeting.objects.enqueue(name=name)
print(django_dbqueue.__file__)
"""


def run(*command: str, folder: Path) -> str:
    """What it printed; nothing of the tests' own settings reaches it."""
    ours = ("DATABASE_URL", "DBQUEUE_", "DJANGO_", "PYTEST_", "PYTHON", "TEST_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def written(folder: Path) -> set[str]:
    """The files below these folders, by path."""
    found = (path for name in WRITTEN for path in (folder / name).rglob("*"))
    return {str(path.relative_to(folder)) for path in found if path.is_file()}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy: what an earlier build has left in this one would find its way into the next."""
    folder = tmp_path_factory.mktemp("release") / "checkout"
    folder.mkdir()
    for path in ROOT.iterdir():
        if path.name in WRITTEN:
            shutil.copytree(path, folder / path.name, ignore=MADE)
        elif path.is_file() and ".sqlite3" not in path.name:
            shutil.copy(path, folder)
    return folder


@pytest.fixture(scope="module")
def released(checkout: Path) -> Path:
    """The folder of the sdist, and of the wheel that is built from it; or that of make release."""
    if built := os.environ.get("DBQUEUE_DIST"):
        return Path(built)
    folder = checkout.parent / "dist"
    run(sys.executable, "-m", "build", "--outdir", str(folder), ".", folder=checkout)
    return folder


@pytest.fixture(scope="module")
def unpacked(released: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    [sdist] = released.glob("*.tar.gz")
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as tar:
        tar.extractall(folder, filter="data")
    return folder / sdist.name.removesuffix(".tar.gz")


@pytest.fixture(scope="module", params=["*.tar.gz", "*.whl"], ids=["sdist", "wheel"])
def python(
    released: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[str]:
    """That of a new environment where one of them is installed."""
    [file] = released.glob(request.param)
    environment = tmp_path_factory.mktemp("installed") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", str(environment), folder=released)
    own = str(environment / "bin" / "python")
    run(sys.executable, "-m", "pip", "--python", own, "install", "-q", str(file), folder=released)
    yield own
    shutil.rmtree(environment)


def test_the_sdist_holds_all_that_is_written(checkout, unpacked):
    assert written(unpacked) == written(checkout)
    assert {"Makefile", "manage.py", "ruff.toml"} <= {path.name for path in unpacked.iterdir()}


def test_the_tests_are_found_in_the_sdist(checkout, unpacked):
    every = ("--collect-only", "-qq", "--full", "--cluster", "-p", "no:cacheprovider")
    found = run(sys.executable, "-m", "pytest", *every, folder=unpacked).splitlines()
    tests = {path for path in written(checkout) if re.fullmatch(r"tests/.*\btest_\w+\.py", path)}
    assert {line.partition(":")[0] for line in found if line} == tests


def test_the_wheel_holds_the_package_and_nothing_else(checkout, released):
    [wheel] = released.glob("*.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == {path for path in written(checkout) if path.startswith("django_dbqueue/")}


def test_the_package_page_links_to_no_file_of_ours(released):
    [wheel] = released.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        page = archive.read(name).decode()
    assert "docs/mail.md" in page
    assert not re.findall(r"\]\((?!https?:)[^)]*\)", page)


def test_a_project_works_with_what_is_installed(python, tmp_path):
    run(python, "-m", "django", "startproject", "site_of_one", ".", folder=tmp_path)
    run(python, "manage.py", "startapp", "kiosk", folder=tmp_path)
    (tmp_path / "site_of_one" / "settings.py").write_text(SETTINGS)
    (tmp_path / "kiosk" / "models.py").write_text(MODELS)

    def manage(*args: str) -> str:
        return run(python, "manage.py", *args, folder=tmp_path)

    manage("makemigrations", "-v0", "kiosk")
    manage("migrate", "-v0")
    place = manage("shell", "-v0", "-c", ENQUEUE)
    assert Path(place.strip()).is_relative_to(Path(python).parent.parent)
    manage("runworker", "--stop-when-empty")
    assert (tmp_path / "greeted").read_text().split() == ["Anna", "Bert"]
    assert "nothing found" in manage("dbqueue", "check")
