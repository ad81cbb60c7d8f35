"""``runworker`` on a SQLite database in memory, as Django's test runner makes it."""

from pathlib import Path

import pytest

from tests.kit.user_project import Project

pytestmark = [pytest.mark.any_database, pytest.mark.process]
MODELS = """
class Label(Job):
    text = models.TextField()

    class Meta(Job.Meta):
        pass

    class Policy:
        max_attempts = 1

    def run(self):
        with open(self.text, "a") as log:
            log.write("printed\\n")
        if self.queue == "torn":
            raise RuntimeError("no printer")

class Slip(Job):
    class Meta(Job.Meta):
        pass

    async def run(self):
        self.queue = "run"
"""
SETTINGS = """
from kiosk_settings import *
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
"""
BEGIN = """
from django.core.management import call_command
call_command("migrate", verbosity=0)
def states():
    return " ".join(job.state for job in [*Label.objects.order_by("pk"), *Slip.objects.all()])
"""


@pytest.fixture
def project(tmp_path):
    project = Project(tmp_path, "sqlite://:memory:")
    project.models(MODELS)
    (tmp_path / "memory_settings.py").write_text(SETTINGS)
    project.environment["DJANGO_SETTINGS_MODULE"] = "memory_settings"
    project.run("makemigrations", "kiosk")
    return project


def test_what_is_ready_runs_once_and_in_the_database_that_the_caller_sees(project, tmp_path):
    log = str(tmp_path / "log")
    code = f"""{BEGIN}
Label.objects.create(text={log!r})
Label.objects.create(text={log!r}, queue="torn")
Label.objects.enqueue(text={log!r}, delay=3600)
Slip.objects.create()
call_command("runworker", stop_when_empty=0.0, verbosity=0)
print(states())
"""
    assert project.shell(code) == "done buried delayed done"
    assert Path(log).read_text() == "printed\n" * 2


def test_it_stops_after_as_many_jobs_as_it_is_told(project, tmp_path):
    code = f"""{BEGIN}
for _ in range(3):
    Label.objects.create(text={str(tmp_path / "log")!r})
try:
    call_command("runworker", stop_when_empty=0.0, max_jobs=2, verbosity=0)
except SystemExit as stopped:
    print(stopped.code, states())
"""
    assert project.shell(code) == "12 done done ready"


def test_a_worker_that_would_stay_is_refused_and_says_what_to_do(project):
    code = f"""{BEGIN}
try:
    call_command("runworker", verbosity=0)
except Exception as refused:
    print(refused)
"""
    assert "in memory" in (said := project.shell(code))
    assert "--stop-when-empty" in said
