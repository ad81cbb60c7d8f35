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
STORED = """
from django_dbqueue.models import FailureCount, FailureKind, Minute, RateBucket, Total
STORED = FailureCount, FailureKind, Minute, RateBucket, Total
"""
STORE = """
of = {"job_table": "kiosk_parcel"}
Minute.objects.create(**of, queue="q", minute=1)
Total.objects.create(**of, queue="q")
RateBucket.objects.create(**of, name="default")
FailureKind.objects.create(**of, fingerprint="f", exception="E", first_seen=1, last_seen=1)
FailureCount.objects.create(**of, queue="q", fingerprint="f", minute=1)
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
def test_what_is_stored_follows_a_table_that_is_renamed_and_goes_back_with_it(
    project, meta, operations
):
    project.shell(STORED + STORE)
    project.models(PARCEL.format(name="Packet", meta=meta))
    path = project.migrations / "0002_rename.py"
    path.write_text(RENAME.format(operations=operations))
    project.run("migrate")
    look = "print({0}.objects.paused_queues(), {{m.objects.get().job_table for m in STORED}})"
    table = "crates" if "crates" in meta else "kiosk_packet"
    assert project.shell(STORED + look.format("Packet")) == f"{{'default'}} {{'{table}'}}"
    assert "nothing found" in project.run("dbqueue", "check")
    project.run("migrate", "kiosk", "0001")
    project.models(PARCEL.format(name="Parcel", meta="pass"))
    assert project.shell(STORED + look.format("Parcel")) == "{'default'} {'kiosk_parcel'}"


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
