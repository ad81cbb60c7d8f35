"""docs/upgrades.md: from one state of a checkout to the next, as it is printed."""

import shlex

import pytest

from tests.kit.printed_blocks import blocks_of
from tests.kit.processes import ROOT
from tests.kit.user_project import PARCEL, Project

pytestmark = [pytest.mark.any_database, pytest.mark.process]

PAGE = ROOT / "docs/upgrades.md"


def printed():
    """The arguments of manage.py of each of the two blocks of commands."""
    blocks = [block.text for block in blocks_of(PAGE) if block.language == "sh"]
    return [[shlex.split(line, comments=True)[2:] for line in text.splitlines()] for text in blocks]


def test_jobs_of_a_project_outlive_tables_of_ours_that_are_made_again(tmp_path):
    project = Project(tmp_path, f"sqlite:///{tmp_path}/kiosk.sqlite3")
    project.models(PARCEL)
    project.run("makemigrations", "kiosk")
    project.run("migrate")
    project.shell("Parcel.objects.create()")
    away, again = printed()
    labels = [command[1] for command in away]
    for command in away:
        if command[1] == "dbqueue":  # the only one of ours that is installed there
            project.run(*command)
    for command in again:
        project.run(*command)
    project.run("runworker", "--once")
    assert project.shell("print(Parcel.objects.done().count())") == "1"
    apps = {folder.parent.name for folder in (ROOT / "django_dbqueue").glob("*/migrations")}
    of_users = apps - {"torture"}
    assert {f"dbqueue_{name}" for name in of_users} | {"dbqueue"} == set(labels)
    assert labels[-1] == "dbqueue"  # the others may need it
