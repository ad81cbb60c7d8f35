"""Several servers of a test's own, reached by an alias of Django's."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dj_database_url
from django.core.checks import run_checks
from django.core.management import call_command
from django.db import connections

from tests.kit.outage_scene import ALIAS


@contextmanager
def short_folder() -> Iterator[Path]:
    """Not pytest's own folder: its path may be too long for a socket."""
    folder = Path(tempfile.mkdtemp(prefix="dbq-", dir="/tmp"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def alias_to(url: str, alias: str = ALIAS) -> Iterator[str]:
    """While this lasts, Django's connection of this name leads there, in the calling thread."""
    config: Any = connections.configure_settings(
        {"default": {}, alias: {"TEST": {}, **dj_database_url.parse(url)}}
    )[alias]
    connections.settings[alias] = config
    try:
        yield alias
    finally:
        connections[alias].close()
        del connections[alias]
        del connections.settings[alias]


def migrate(alias: str) -> None:
    call_command("migrate", database=alias, run_syncdb=True, verbosity=0)


def check_ids(alias: str) -> set[str | None]:
    """What the system checks say of the database to which the alias leads."""
    return {one.id for one in run_checks(databases=[alias])} - {"dbqueue.W001"}


def ask(alias: str, statement: str, *params: Any) -> list[tuple[Any, ...]]:
    with connections[alias].cursor() as cursor:
        cursor.execute(statement, params or None)
        return list(cursor.fetchall()) if cursor.description else []
