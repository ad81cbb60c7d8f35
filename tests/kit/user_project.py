"""A small Django project of its own, as a user has it: one app, its models, its migrations."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.db import connection

from tests.kit.warm_processes import run

SETTINGS = """
from testproject import settings as base
DATABASES = base.DATABASES
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
SECRET_KEY = "for-a-test"
USE_TZ = True
INSTALLED_APPS = ["django_dbqueue", "kiosk"]
"""

# A queue table, for ``Project.models``.
PARCEL = """
class Parcel(Job):
    class Meta(Job.Meta):
        pass

    def run(self):
        pass
"""

# Runs a command for each list of arguments on stdin; what it printed, or its CommandError.
ANSWERS = """
import io, json, sys
import django
from django.core.management import CommandError, call_command
django.setup()
answers = []
for args in json.load(sys.stdin):
    out = io.StringIO()
    try:
        call_command(*args, stdout=out)
        answers.append(out.getvalue())
    except CommandError as error:
        answers.append(f"refused: {error}")
json.dump(answers, sys.stdout)
"""


class Project:
    """Its app is called ``kiosk``; every command is a process of its own."""

    def __init__(self, folder: Path, database_url: str) -> None:
        self.app = folder / "kiosk"
        self.migrations = self.app / "migrations"
        self.migrations.mkdir(parents=True)
        (self.app / "__init__.py").touch()
        (self.migrations / "__init__.py").touch()
        (folder / "kiosk_settings.py").write_text(SETTINGS)
        root = Path(__file__).resolve().parents[2]
        self.folder = folder
        self.environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": "kiosk_settings",
            "DATABASE_URL": database_url,
            "PYTHONPATH": os.pathsep.join([str(folder), str(root)]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "DEBUG": "0",
        }

    def models(self, text: str) -> None:
        """Replace the app's models."""
        head = "from django.db import models\nfrom django_dbqueue.models import Job\n"
        (self.app / "models.py").write_text(head + text)

    def run(self, *args: str, code: int = 0, stdin: str = "") -> str:
        """``manage.py`` with some arguments; what it printed."""
        return self._python("-m", "django", *args, code=code, stdin=stdin)

    def shell(self, text: str) -> str:
        """Python code in the project, its models imported; what it printed."""
        setup = "import django\ndjango.setup()\nfrom kiosk.models import *\n"
        return self._python("-c", setup + text, code=0, stdin="").strip()

    def answers(self, *commands: list[str]) -> list[str]:
        """Many commands in one process; what each printed, or why it refused."""
        return list(json.loads(self._python("-c", ANSWERS, code=0, stdin=json.dumps(commands))))

    def _python(self, *args: str, code: int, stdin: str) -> str:
        done = run([*args], cwd=self.folder, env=self.environment, stdin=stdin)
        assert done.returncode == code, f"{args}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout + (done.stderr if code else "")


@contextmanager
def own_database(database_url: str, folder: Path) -> Iterator[str]:
    """The address of an empty database beside the test database; it is dropped afterwards."""
    if connection.vendor == "sqlite":
        yield f"sqlite:///{folder / 'kiosk.sqlite3'}"
        return
    tests = connection.settings_dict["NAME"]
    name, force = f"{tests}_kiosk", " WITH (FORCE)" if connection.vendor == "postgresql" else ""
    drop = f"DROP DATABASE IF EXISTS {connection.ops.quote_name(name)}{force}"
    with connection.cursor() as cursor:
        cursor.execute(drop)
        cursor.execute(f"CREATE DATABASE {connection.ops.quote_name(name)}")
        try:
            yield f"/{name}".join(database_url.rsplit(f"/{tests}", 1))
        finally:
            cursor.execute(drop)
