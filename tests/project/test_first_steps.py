"""What a beginner meets who has left out a step: a command to run, and never a traceback."""

import pytest

from django_dbqueue.monitor.first_steps import advice_for_beginners
from django_dbqueue.worker.options import Options
from django_dbqueue.worker.served import parse_served
from tests.kit.jobs import buried, claimed, done
from tests.kit.overview import minute
from tests.kit.processes import running
from tests.kit.user_project import PARCEL, Project
from tests.queueapp.models import Note

pytestmark = pytest.mark.any_database

MAKE = "python manage.py makemigrations kiosk"
MIGRATE = "python manage.py migrate"
COMMANDS = [
    ["runworker"],
    ["runreaper", "--once"],
    ["dbqueue", "status"],
    ["dbqueue", "workers"],
    ["dbqueue", "explain", "kiosk.Parcel", "1"],
    ["dbqueue", "demo-data"],
]
each_command = pytest.mark.parametrize("command", COMMANDS, ids=" ".join)


@pytest.fixture(scope="module")
def kiosk(tmp_path_factory):
    """A new project in development: its queue table is in no migration yet."""
    folder = tmp_path_factory.mktemp("kiosk")
    project = Project(folder, f"sqlite:///{folder}/kiosk.sqlite3")
    project.models(PARCEL)
    with (folder / "kiosk_settings.py").open("a") as settings:
        settings.write("DEBUG = True\n")
    return project


def said(project, command):
    code = 3 if command[0].startswith("run") else 1
    text = project.run(*command, code=code)
    assert "Traceback" not in text
    return text


@each_command
def test_a_table_that_was_never_migrated_is_named_with_the_commands(kiosk, command):
    text = said(kiosk, command)
    assert text.index(MAKE) < text.index(MIGRATE)


@pytest.fixture(scope="module")
def half_migrated(kiosk):
    """The tables of the package are there, the project's own is not."""
    kiosk.run("migrate", "dbqueue")
    return kiosk


@each_command
def test_a_model_that_was_never_made_a_table_is_named_with_the_commands(half_migrated, command):
    if command != ["dbqueue", "workers"]:  # it needs the package's own tables alone
        text = said(half_migrated, command)
        assert text.index(MAKE) < text.index(MIGRATE)


def test_a_new_column_and_a_migration_that_was_not_applied_are_named_one_by_one(kiosk):
    kiosk.run("migrate", "dbqueue")
    kiosk.run("makemigrations", "kiosk")
    text = said(kiosk, ["runworker"])
    assert MAKE not in text
    assert MIGRATE in text
    kiosk.run("migrate")
    hello = kiosk.run("runworker", "--once")
    assert MIGRATE not in hello
    kiosk.models(PARCEL + "\n    weight = models.IntegerField(default=0)\n")
    assert MAKE in said(kiosk, ["runworker"])


@pytest.mark.parametrize("verb", [["status"], ["workers"], ["explain", "queueapp.Note", "1"]])
def test_a_database_that_is_away_is_told_in_one_line(tmp_path, verb):
    with running(f"sqlite:///{tmp_path}/nowhere/db.sqlite3", "dbqueue", *verb) as process:
        assert process.end() == 1
    assert process.stderr.count("\n") == 1
    assert process.stderr.endswith("unable to open database file\n")


@pytest.mark.usefixtures("db_rows")
def test_advice_is_given_where_no_job_has_ever_been():
    options = Options(served=parse_served(["queueapp.Note"]))
    assert "Note.objects.create" in advice_for_beginners(options)
    minute(5)
    assert advice_for_beginners(options) == ""


@pytest.mark.usefixtures("db_rows")
@pytest.mark.parametrize(
    "there",
    [claimed, done, buried, lambda: Note.objects.enqueue(delay=60), Note.objects.create],
    ids=["claimed", "done", "buried", "delayed", "ready"],
)
def test_no_advice_is_given_where_a_job_is_whatever_its_state(there):
    there()
    assert advice_for_beginners(Options(served=parse_served(["queueapp.Note"]))) == ""


@pytest.mark.usefixtures("db_rows")
def test_a_project_of_tasks_alone_is_told_how_a_task_is_enqueued():
    options = Options(served=parse_served(["dbqueue_tasks.Task", "dbqueue_tasks.AsyncTask"]))
    assert "your_task.enqueue(...)" in advice_for_beginners(options)
