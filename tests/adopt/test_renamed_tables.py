"""A queue table whose class or name changes keeps what people and workers have stored of it."""

import pytest
from django.test.utils import isolate_apps

from django_dbqueue.diagnose.check import check_integrity
from django_dbqueue.models import Job, Queue, Receipt
from django_dbqueue.models.receipt import receipt_of
from tests.kit.jobs import table
from tests.kit.user_project import Project, own_database
from tests.queueapp.models import Note

PARCEL = """
class {name}(Job):
    class Meta(Job.Meta):
        {meta}

    def run(self):
        print(self.idempotency_key)
"""
RENAME = """
from django.db import migrations

class Migration(migrations.Migration):
    dependencies = [("kiosk", "0001_initial")]
    operations = [{operations}]
"""


@pytest.fixture
def renamed(db_rows):
    """The notes' table, under another class."""
    with isolate_apps("tests.queueapp"):

        class Memo(Job):
            class Meta(Job.Meta):
                app_label = "queueapp"
                db_table = Note._meta.db_table

        yield Memo


@pytest.fixture
def proxy(db_rows):
    with isolate_apps("tests.queueapp"):

        class Aside(Note):
            class Meta:
                app_label = "queueapp"
                proxy = True

        yield Aside


@pytest.mark.parametrize("other", ["renamed", "proxy"])
def test_a_class_with_another_name_has_the_same_pauses_keys_and_receipts(other, request):
    model = request.getfixturevalue(other)
    job = Note.objects.create()
    Note.objects.pause(reason="maintenance")
    same = model.objects.get(pk=job.pk)
    assert model.objects.paused_queues() == {"default"}
    assert model.objects.claim() == []
    assert same.idempotency_key == job.idempotency_key
    assert receipt_of(table(model), same).pk == receipt_of(table(), job).pk
    model.objects.resume()
    assert Note.objects.paused_queues() == set()


@pytest.fixture
def project(tmp_path, db_rows, database_url):
    with own_database(database_url, tmp_path) as address:
        project = Project(tmp_path, address)
        project.models(PARCEL.format(name="Parcel", meta="pass"))
        project.run("makemigrations", "kiosk")
        project.run("migrate")
        project.shell("Parcel.objects.create(); Parcel.objects.pause(reason='tea')")
        yield project


@pytest.mark.process
@pytest.mark.parametrize(
    ("meta", "operations"),
    [
        ("pass", 'migrations.RenameModel("Parcel", "Packet")'),
        (
            "db_table = 'crates'",
            """migrations.RenameModel("Parcel", "Case"), migrations.RenameModel("Case", "Packet"),
            migrations.AlterModelTable("Packet", "crates")""",
        ),
    ],
    ids=["renamed", "renamed twice and its table, too"],
)
def test_pauses_follow_a_table_that_is_renamed_and_go_back_with_it(project, meta, operations):
    minute = "from django_dbqueue.models import Minute\n"
    project.shell(minute + "Minute.objects.create(job_table='kiosk_parcel', queue='q', minute=1)")
    project.models(PARCEL.format(name="Packet", meta=meta))
    path = project.migrations / "0002_rename.py"
    path.write_text(RENAME.format(operations=operations))
    project.run("migrate")
    table = "Packet._meta.db_table"
    look = f"print(Packet.objects.paused_queues(), {table} == Minute.objects.get().job_table)"
    assert project.shell(minute + look) == "{'default'} True"
    assert "nothing found" in project.run("dbqueue", "check")
    project.run("migrate", "kiosk", "0001")
    project.models(PARCEL.format(name="Parcel", meta="pass"))
    assert project.shell("print(Parcel.objects.paused_queues())") == "{'default'}"


@pytest.mark.usefixtures("db_rows")
def test_check_finds_pauses_and_receipts_of_a_table_that_is_gone():
    Note.objects.pause()
    Queue.objects.pause("queueapp_gone", "slow", None, "tea")
    Queue.objects.pause("queueapp_gone", "over", 0, "tea")
    Receipt.objects.create(digest="a", job_table="queueapp_gone@default", job_key="1")
    Receipt.objects.create(digest="b", job_table="queueapp_note@default", job_key="1")
    Receipt.objects.create(digest="c", job_table="queueapp_note@elsewhere", job_key="1")
    found = [(one.table, one.id, one.what) for one in check_integrity("default").findings]
    assert found == [
        ("queueapp_gone", "slow", "pauses a table that is not there"),
        ("queueapp_gone", "queueapp_gone@default", "are receipts of a table that is not there"),
    ]
