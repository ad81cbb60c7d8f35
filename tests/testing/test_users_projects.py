"""The kit in a project of its own: by Django's test runner, by pytest, and where it is not used."""

import os
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from textwrap import dedent

import pytest

from tests.kit.user_project import Project

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = "django_dbqueue.testing.pytest_plugin"
MODELS = """
class Label(Job):
    text = models.TextField()

    class Meta(Job.Meta):
        pass

    class Policy:
        max_attempts = 2

    def run(self):
        if self.text == "torn":
            raise RuntimeError("no printer")
        Printed.objects.create(text=self.text)

class Printed(models.Model):
    text = models.TextField()

class Booked(Job):
    class Meta(Job.Meta):
        pass

    class Policy:
        exactly_once = "books"
        max_attempts = 1

    def run(self):
        Printed.objects.using("books").create(text=self.queue)
        if self.queue == "torn":
            raise RuntimeError("no ink")
"""
SHARDED = """
class Sharded(Job):
    class Meta(Job.Meta):
        pass

    @classmethod
    def written_databases(cls):
        return ["default", "books"]

    def run(self):
        pass
"""
# A test database of its own; on SQLite in memory, without any options.
SETTINGS = """
from kiosk_settings import *
default = {**DATABASES["default"]}
if default["ENGINE"].endswith("sqlite3"):
    default = {"ENGINE": default["ENGINE"], "NAME": ":memory:"}
else:
    default["TEST"] = {**default.get("TEST", {}), "NAME": default["NAME"] + "_kit"}
books = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
DATABASES = {"default": default, "books": books}
"""
UNITTESTS = """
from django.test import TestCase, TransactionTestCase
from django_dbqueue.testing import JobTestMixin
from kiosk.models import Booked, Label, Printed

class Verbs(JobTestMixin):
    def test_a(self):
        self.assertEqual(Label.objects.count() + Printed.objects.count(), 0)
        with self.captured_jobs(Label) as found:
            good, bad = Label.objects.create(text="mug"), Label.objects.create(text="torn")
        self.assertEqual(found, [good, bad])
        self.assertEqual(self.run_all(), 2)
        self.assertEqual(self.run_until_settled(Label), 1)
        bad.refresh_from_db()
        self.assertEqual(bad.state, "buried")
        self.assert_enqueued(Label, text="mug", state="done")
        self.assert_not_enqueued(Label, text="cup")
        self.assertEqual(Printed.objects.get().text, "mug")

    test_b = test_a

class InATransaction(Verbs, TestCase):
    pass

class InNone(Verbs, TransactionTestCase):
    pass

class OnTwoDatabases(JobTestMixin, TestCase):
    databases = {"default", "books"}

    def test_effects_happen_once(self):
        for queue in ("mug", "torn"):
            Booked.objects.create(queue=queue)
        self.assertEqual(self.run_all(), 2)
        self.assertEqual(Printed.objects.using("books").get().text, "mug")
        self.assert_enqueued(Booked, queue="mug", state="done")
        self.assert_enqueued(Booked, queue="torn", state="buried")

    test_and_are_rolled_back_after_it = test_effects_happen_once
"""
UNITTESTS_OF_SHARDS = """
from django.test import TestCase
from django_dbqueue.testing import JobTestMixin
from kiosk.models import Sharded

class OnBoth(JobTestMixin, TestCase):
    databases = {"default", "books"}

    def test_jobs_of_both_are_seen_and_run(self):
        with self.captured_jobs() as found:
            near, far = (Sharded.objects.using(one).create() for one in ("default", "books"))
            self.assertEqual(near.pk, far.pk)
            self.assertEqual(self.run_all(), 2)
        # Each has its own clock, and SQLite's counts milliseconds.
        self.assertCountEqual([job._state.db for job in found], ["default", "books"])

    def test_a_job_of_the_other_one_is_told(self):
        self.assert_not_enqueued(Sharded)
        Sharded.objects.using("books").create(queue="far")
        self.assert_enqueued(Sharded, queue="far")
        with self.assertRaises(AssertionError):
            self.assert_not_enqueued(Sharded)

class OnOne(JobTestMixin, TestCase):
    def test_what_the_test_may_not_reach_is_left_alone(self):
        for tables in ((), (Sharded,), ("sharded",), ("kiosk.Sharded:default",)):
            Sharded.objects.using("default").create()
            self.assertEqual(self.run_all(*tables), 1)
"""
PYTESTS = """
import pytest
from kiosk.models import Label, Printed

@pytest.mark.parametrize("again", [1, 2])
@pytest.mark.parametrize("kind", [
    "plain",
    pytest.param("marked", marks=pytest.mark.django_db),
    pytest.param("none", marks=pytest.mark.django_db(transaction=True)),
])
def test_verbs(dbqueue, kind, again):
    assert Label.objects.count() + Printed.objects.count() == 0
    with dbqueue.captured_jobs(Label) as found:
        good, bad = Label.objects.create(text="mug"), Label.objects.create(text="torn")
    assert found == [good, bad]
    assert (dbqueue.run_all(), dbqueue.run_until_settled(Label)) == (2, 1)
    dbqueue.assert_enqueued(Label, text="torn", state="buried")
    dbqueue.assert_not_enqueued(Label, text="cup")

def test_that_fails(dbqueue):
    dbqueue.assert_enqueued(Label, text="cup")
"""
# No test of the file has a mark of pytest-django's.
PYTESTS_WITHOUT_MARKS = """
from django.db import connection
from kiosk.models import Label

def test_it_is_the_database_of_tests(dbqueue):
    print("database:", connection.settings_dict["NAME"])
    Label.objects.create(text="mug")
    assert dbqueue.run_all() == 1
"""


@pytest.fixture
def project(tmp_path, database_url):
    project = Project(tmp_path, database_url)
    project.models(MODELS)
    (tmp_path / "kiosk_test_settings.py").write_text(SETTINGS)
    project.environment["DJANGO_SETTINGS_MODULE"] = "kiosk_test_settings"
    project.run("makemigrations", "kiosk")
    return project


def python(*arguments, cwd, env):
    """A process; its exit code, and what it said."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_unittest_and_pytest_run_it_in_a_transaction_and_without(db_rows, project):
    (project.app / "tests.py").write_text(UNITTESTS)
    where = {"cwd": project.folder, "env": project.environment}
    code, said = python("-m", "django", "test", "--noinput", "kiosk", **where)
    assert code == 0, said
    assert "Ran 6 tests" in said

    (project.folder / "test_kiosk.py").write_text(PYTESTS)
    options = ("-p", PLUGIN, "-p", "no:cacheprovider", "--create-db")
    code, said = python("-m", "pytest", *options, "test_kiosk.py", **where)
    assert code == 1, said
    assert "1 failed, 6 passed" in said
    assert "no kiosk.Label with text='cup' was enqueued, nor anything else" in said


@pytest.mark.any_database
def test_jobs_of_the_projects_own_database_are_left_alone(db_rows, project):
    name = project.folder / "own.sqlite3"
    with (project.folder / "kiosk_test_settings.py").open("a") as settings:
        settings.write(f"default['NAME'] = {str(name)!r}\n")
    project.run("migrate", "--skip-checks")
    project.shell("Label.objects.create(text='real')")
    (project.folder / "test_kiosk.py").write_text(PYTESTS_WITHOUT_MARKS)
    options = ("-p", PLUGIN, "-p", "no:cacheprovider", "-s", "test_kiosk.py")
    code, said = python("-m", "pytest", *options, cwd=project.folder, env=project.environment)
    assert code == 0, said
    assert "database: file:memorydb_default" in said


def test_a_table_on_several_databases_is_seen_on_all_that_the_test_may_reach(db_rows, project):
    project.models(MODELS + SHARDED)
    project.run("makemigrations", "kiosk")
    (project.app / "tests.py").write_text(UNITTESTS_OF_SHARDS)
    where = {"cwd": project.folder, "env": project.environment}
    code, said = python("-m", "django", "test", "--noinput", "kiosk", **where)
    assert code == 0, said
    assert "Ran 3 tests" in said


@pytest.mark.process
def test_in_a_project_without_django_pytest_loads_the_plugin_and_nothing_else(tmp_path):
    metadata = tmp_path / "kit-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: kit\nVersion: 1\n")
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    declared = setup["options.entry_points"]["pytest11"]
    (metadata / "entry_points.txt").write_text(f"[pytest11]{declared}\n")
    (tmp_path / "test_plain.py").write_text(
        dedent(
            f"""
            import sys

            def test_plain():
                assert {PLUGIN!r} in sys.modules
                assert not {{"django", "django_dbqueue.models"}} & set(sys.modules)
            """
        )
    )
    outside = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("DJANGO_", "PYTEST_"))
    }
    where = {"cwd": tmp_path, "env": outside | {"PYTHONPATH": f"{tmp_path}:{ROOT}"}}
    # Also where somebody names it, too, as those do who have not installed the package.
    for named in ((), ("-p", PLUGIN)):
        options = ("-p", "no:django", "-p", "no:anyio", "-p", "no:cacheprovider", *named)
        code, said = python("-m", "pytest", *options, "test_plain.py", **where)
        assert code == 0, said
        assert "1 passed" in said
