"""A project with a queue table on several databases: the router and model of docs/shards.md."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.db import connection

from tests.kit.two_databases import FAST, ROOT
from tests.kit.warm_processes import run

SETTINGS = """
import os
from testproject.settings import database
DATABASES = {
    "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "default.sqlite3"},
    **{alias: database(f"SHARD_{alias}") for alias in os.environ["SHARDS"].split()},
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
SECRET_KEY = "for-a-test"
USE_TZ = True
INSTALLED_APPS = ["django_dbqueue", "shop"]
SHARDS = os.environ["SHARDS"].split()
TAKES = os.environ["TAKES"].split()
DATABASE_ROUTERS = ["shop.routers.ShardRouter"]
"""


def from_the_docs(name: str) -> str:
    text = (ROOT / "docs" / "shards.md").read_text()
    blocks = re.findall(r"```python\n# (\S+?)[:\n](.*?)```", text, re.DOTALL)
    return str(dict(blocks)[name])


class Sharded:
    """``shards``: the URL of each alias that the project knows; ``takes``: where new jobs go."""

    def __init__(self, folder: Path, shards: dict[str, str]) -> None:
        self.folder = folder
        self.shards, self.takes = dict(shards), list(shards)
        (folder / "shard_settings.py").write_text(SETTINGS)
        migrations = folder / "shop" / "migrations"
        migrations.mkdir(parents=True)
        (folder / "shop" / "__init__.py").touch()
        (migrations / "__init__.py").touch()
        for name in ("models", "routers"):
            (folder / "shop" / f"{name}.py").write_text(from_the_docs(f"shop/{name}.py"))
        self.workers: list[Any] = []
        self.manage("makemigrations", "shop", "-v0")
        for alias in ("default", *shards):
            self.manage("migrate", "-v0", "--database", alias)

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {
            "DJANGO_SETTINGS_MODULE": "shard_settings",
            "DEBUG": "0",
            "SHARDS": " ".join(self.shards),
            "TAKES": " ".join(self.takes),
            "PYTHONPATH": os.pathsep.join([str(self.folder), str(ROOT)]),
            **{f"SHARD_{alias}": url for alias, url in self.shards.items()},
        }

    def add(self, alias: str, url: str) -> None:
        """As docs/shards.md says, up to its worker."""
        self.shards[alias] = url
        self.manage("migrate", "-v0", "--database", alias)

    def manage(self, *args: str, code: int | None = 0) -> str:
        done = run(["-m", "django", *args], cwd=self.folder, env=self.environment)
        assert code is None or done.returncode == code, done.stdout + done.stderr
        return done.stdout + (done.stderr if code else "")

    def shell(self, text: str) -> Any:
        """Run Python code that prints JSON; what that says."""
        setup = "import django, json\ndjango.setup()\nfrom shop.models import Report\n"
        done = run(["-c", setup + text], cwd=self.folder, env=self.environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout or "null")

    def start(self, *args: str, log: str) -> "subprocess.Popen[str]":
        """A process of Python that goes on, its errors in a file."""
        process = subprocess.Popen(
            [sys.executable, *args],
            cwd=self.folder,
            env=self.environment | FAST,
            stdout=subprocess.PIPE,
            stderr=(self.folder / log).open("w"),
            text=True,
            start_new_session=True,
        )
        self.workers.append(process)
        return process

    def worker(self, *args: str) -> "subprocess.Popen[str]":
        return self.start("-m", "django", "runworker", *args, log=f"worker{len(self.workers)}.log")

    def status(self, code: int | None = None) -> Any:
        """Its exit code says whether somebody is needed: that is asked where a code is given."""
        said = self.manage("dbqueue", "status", "--json", code=code)
        return json.JSONDecoder().raw_decode(said)[0]

    def rows(self, columns: Sequence[str] = ("customer", "status")) -> dict[str, list[list[Any]]]:
        """Of each shard that is there."""
        return dict(
            self.shell(
                "from django.db import OperationalError\n"
                "from django.conf import settings\n"
                "found = {}\n"
                "for alias in settings.SHARDS:\n"
                "    try:\n"
                f"        rows = Report.objects.using(alias).values_list(*{columns!r})\n"
                "        found[alias] = [list(row) for row in rows]\n"
                "    except OperationalError:\n"
                "        pass\n"
                "print(json.dumps(found))"
            )
        )

    def end(self) -> None:
        for process in self.workers:
            if process.poll() is None:
                os.killpg(process.pid, 9)
            process.communicate()


@contextmanager
def databases(url: str, folder: Path, aliases: Sequence[str]) -> Iterator[dict[str, str]]:
    """The addresses of empty databases of one server, or of files in folders of their own."""
    if connection.vendor == "sqlite":
        for alias in aliases:
            (folder / alias).mkdir()
        yield {alias: f"sqlite:///{folder / alias}/jobs.sqlite3" for alias in aliases}
        return
    tests = connection.settings_dict["NAME"]
    force = " WITH (FORCE)" if connection.vendor == "postgresql" else ""
    names = {alias: f"{tests}_{alias}" for alias in aliases}
    quoted = [connection.ops.quote_name(name) for name in names.values()]
    with connection.cursor() as cursor:
        for name in quoted:
            cursor.execute(f"DROP DATABASE IF EXISTS {name}{force}")
            cursor.execute(f"CREATE DATABASE {name}")
        try:
            yield {
                alias: f"/{name}".join(url.rsplit(f"/{tests}", 1)) for alias, name in names.items()
            }
        finally:
            for name in quoted:
                cursor.execute(f"DROP DATABASE IF EXISTS {name}{force}")
