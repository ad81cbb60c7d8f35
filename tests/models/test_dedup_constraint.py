"""What keeps twins out: an index in which a job without a dedup_key has nothing but NULL."""

import pytest
from django.db import IntegrityError, connection, transaction

from django_dbqueue.lifecycle import holder
from tests.kit.jobs import claim_one, fresh, overwrite, table
from tests.kit.user_project import Project, own_database
from tests.queueapp.models import Kept, Note

pytestmark = pytest.mark.usefixtures("db_rows")

ORDER = """
class Order(Job):
    item = models.TextField(default="")

    class Meta(Job.Meta):
        pass
"""
BEFORE = "fields=('queue', 'dedup_key')"
AFTER = "fields=('dedup_key', 'queue')"
OLD_ROWS = """
Order.objects.bulk_create([Order(item="none") for _ in range(3)])
for queue, key in [("a", "k"), ("b", "k"), ("a", "K"), ("a", "ké"), ("q" * 200, "k" * 200)]:
    Order.objects.enqueue(queue=queue, dedup_key=key)
"""
TWINS = """
for job in Order.objects.exclude(dedup_key=None):
    print(*Order.objects.enqueue(queue=job.queue, dedup_key=job.dedup_key)[1:])
print(Order.objects.count(), Order.objects.enqueue(queue="c", dedup_key="k").created)
"""


@pytest.fixture
def project(tmp_path, database_url):
    with own_database(database_url, tmp_path) as address:
        yield Project(tmp_path, address)


def as_made_before(project):
    """The user's migration of a version that had the queue itself in the index."""
    project.models(ORDER)
    project.run("makemigrations", "kiosk", "--name", "made")
    path = project.migrations / "0001_made.py"
    text = path.read_text()
    assert AFTER in text
    path.write_text(text.replace(AFTER, BEFORE))
    project.run("migrate")


@pytest.mark.each_database
def test_an_older_table_changes_by_makemigrations_and_keeps_its_jobs(project):
    as_made_before(project)
    project.shell(OLD_ROWS)
    expected = ["False"] * 5 + ["8 True"]
    assert project.shell(TWINS).splitlines() == expected  # the code goes before the migration
    project.shell("Order.objects.filter(queue='c').delete()")
    project.run("makemigrations", "kiosk")
    project.run("migrate")
    assert project.shell(TWINS).splitlines() == expected
    project.run("makemigrations", "kiosk", "--check")


@pytest.mark.each_database
def test_the_change_can_be_taken_back(project):
    as_made_before(project)
    project.shell(OLD_ROWS)
    project.run("makemigrations", "kiosk")
    project.run("migrate")
    project.run("migrate", "kiosk", "0001")
    assert project.shell(TWINS).splitlines() == ["False"] * 5 + ["8 True"]


@pytest.mark.skipif(connection.vendor != "mysql", reason="elsewhere such a job is in no index")
def test_without_a_key_all_of_its_index_is_null():
    for job in [Note.objects.create(queue="q"), Note.objects.create(dedup_key="k", queue="q")]:
        [columns] = unique_parts(job)
        assert all((part is None) == (job.dedup_key is None) for part in columns)


def unique_parts(job):
    """What the unique index of the dedup keys holds of a job."""
    [constraint] = Note._meta.constraints
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT column_name FROM information_schema.statistics "
            "WHERE table_schema = DATABASE() AND index_name = %s ORDER BY seq_in_index",
            [constraint.name],
        )
        names = ", ".join(name for (name,) in cursor.fetchall())
        cursor.execute(f"SELECT {names} FROM {Note._meta.db_table} WHERE id = %s", [job.pk])
        return cursor.fetchall()


def test_the_key_goes_with_a_job_into_another_queue():
    Kept.objects.enqueue(queue="from", dedup_key="k")
    job = claim_one(Kept, queue="from")
    holder.move(table(Kept), job.claim_owner, [job.claim_key], "to")
    assert fresh(job).dedup_key == "k"
    assert not Kept.objects.enqueue(queue="to", dedup_key="k").created
    assert Kept.objects.enqueue(queue="from", dedup_key="k").created


def test_a_hand_that_moves_a_job_moves_its_key():
    job, _ = Note.objects.enqueue(queue="from", dedup_key="k")
    overwrite(job, queue="to")
    assert Note.objects.enqueue(queue="from", dedup_key="k").created
    with pytest.raises(IntegrityError), transaction.atomic():
        overwrite(job, queue="from")


@pytest.mark.parametrize(
    ("one", "other"),
    [(("a", "b c"), ("a b", "c")), (("a", "k"), ("A", "k")), (("a", "k"), ("a", "K"))],
)
def test_what_differs_in_queue_or_key_is_no_twin(one, other):
    for queue, key in (one, other):
        assert Note.objects.enqueue(queue=queue, dedup_key=key).created


def test_the_longest_names_are_told_apart():
    queue, key = "ü" * 100, "ß" * 100
    assert Note.objects.enqueue(queue=queue, dedup_key=key).created
    assert not Note.objects.enqueue(queue=queue, dedup_key=key).created
    assert Note.objects.enqueue(queue=queue[:-1] + "o", dedup_key=key).created
