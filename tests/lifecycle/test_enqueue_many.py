"""Many rows without instances: they are what create() would have written."""

import datetime
import enum

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection, models, transaction
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext, isolate_apps
from django.utils import timezone

from django_dbqueue.lifecycle.bulk import is_simple
from django_dbqueue.lifecycle.promotion import promote
from django_dbqueue.models import Job
from django_dbqueue.states import Status
from tests.kit.jobs import claim_one, fresh, table
from tests.kit.waiting import wait_until
from tests.queueapp.models import Filed, Note, Person, Portrait, Uuid

pytestmark = pytest.mark.usefixtures("db_rows")


def columns_of(job):
    left_out = {"id", "created_at"}
    fields = [field for field in job._meta.concrete_fields if field.name not in left_out]
    return {field.attname: getattr(job, field.attname) for field in fields}


def test_the_rows_are_those_that_create_writes():
    rows = [{"text": "a", "queue": "x"}, {"text": "100 %s", "queue": "x"}]
    assert Note.objects.enqueue_many(rows, priority=3, seconds=0.5) == 2
    created = [Note.objects.create(**row, priority=3, seconds=0.5) for row in rows]
    found = Note.objects.order_by("pk")
    assert [columns_of(job) for job in found[:2]] == [columns_of(fresh(job)) for job in created]
    assert all(abs(job.created_at - found[0].created_at).total_seconds() < 30 for job in found)
    assert claim_one(queue="x").text == "a"


def test_thousands_of_rows_take_a_few_statements():
    with CaptureQueriesContext(
        connection,
    ) as statements:
        Note.objects.enqueue_many({"text": str(n)} for n in range(2500))
    inserts = [one for one in statements if one["sql"].startswith("INSERT")]
    # Of the parameters that SQLite takes at once Django gives it 999, or all.
    assert len(inserts) <= (3 if connection.vendor != "sqlite" else 2500 * 6 // 999 + 1)
    texts = Note.objects.order_by("pk").values_list("text", flat=True)
    assert list(texts) == [str(n) for n in range(2500)]


def test_nothing_at_all_is_enqueued_without_a_statement(django_assert_num_queries):
    with django_assert_num_queries(0):
        assert Note.objects.enqueue_many([]) == 0


@pytest.mark.parametrize(
    ("rows", "error", "said"),
    [
        ([{"text": "a"}, {"text": "b", "priority": -1}], ValueError, "row 1 .*: priority"),
        ([{"text": "a"}, {}], ValueError, "row 1 .*: text"),
        ([{"colour": "red"}], ValueError, "no column 'colour'"),
        ([{"status": 2}], ValueError, "status: only the lifecycle"),
        ([{"owner": "me", "errors": []}], ValueError, "errors, owner"),
        ([{"priority": 1}, {"priority": -1}], ValidationError, "priority"),
        ([{"text": Now()}], TypeError, "text: .* not expressions"),
        ([{"dedup_key": "a"}, {"dedup_key": "a"}], IntegrityError, "(?i)unique|duplicate"),
        ([{"seconds": 1.5}, {"seconds": "soon"}], ValueError, "seconds"),
        ([{"pk": 1}], ValueError, "no column 'pk'"),
    ],
)
def test_an_error_names_what_is_wrong_and_leaves_nothing_behind(rows, error, said):
    with pytest.raises(error, match=said):
        Note.objects.enqueue_many(rows)
    assert not Note.objects.exists()


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"a_file": "a"}, {}], "row 1 .*: a_file"),
        ([{"owner": "me"}], "owner: only the lifecycle"),
        ([{"status": 2}], "status: only the lifecycle"),
        ([{"pk": 1}], "no column 'pk'"),
        ([{"colour": "red"}], "no column 'colour'"),
    ],
)
def test_rows_that_need_instances_are_judged_alike(rows, said):
    with pytest.raises(ValueError, match=said):
        Filed.objects.enqueue_many(rows)
    assert not Filed.objects.exists()


def test_a_default_that_is_more_than_a_text_is_written_as_create_writes_it(monkeypatch):
    class Colour(str, enum.Enum):  # noqa: UP042  # of which str() is another text than its own
        RED = "red"

    monkeypatch.setattr(Note._meta.get_field("text"), "_get_default", lambda: Colour.RED)
    assert Note().text is Colour.RED
    Note.objects.enqueue_many([{}])
    Note.objects.create(text=Colour.RED)
    many, one = Note.objects.order_by("pk").values_list("text", flat=True)
    assert many == one  # mysqlclient writes "Colour.RED"


def test_a_default_with_signs_of_sql_is_written_as_it_is(monkeypatch):
    monkeypatch.setattr(Note._meta.get_field("text"), "_get_default", lambda: "it's 5 %s\\")
    Note.objects.enqueue_many([{}])
    assert Note.objects.get().text == "it's 5 %s\\"


def test_an_error_in_a_later_statement_takes_the_earlier_ones_back():
    rows = [{"dedup_key": str(n)} for n in range(1500)]
    with pytest.raises(IntegrityError):
        Note.objects.enqueue_many([*rows, {"dedup_key": "0"}])
    assert not Note.objects.exists()


def test_it_is_part_of_the_callers_transaction():
    with transaction.atomic():
        Note.objects.enqueue_many([{}])
        transaction.set_rollback(True)
    assert not Note.objects.exists()


def test_a_delay_is_counted_by_the_database():
    Note.objects.enqueue_many([{}, {}], delay=0.3)
    job = Note.objects.first()
    assert job.status == Status.DELAYED
    assert (job.retry_at - job.created_at).total_seconds() == pytest.approx(0.3, abs=0.05)
    wait_until(lambda: promote(table()))


def test_some_rows_may_be_delayed_and_others_not():
    due = timezone.now() + datetime.timedelta(hours=1)
    Note.objects.enqueue_many([{"retry_at": None}, {"retry_at": due}])
    found = Note.objects.order_by("pk").values_list("status", "retry_at")
    assert list(found) == [(Status.READY, None), (Status.DELAYED, due)]
    with pytest.raises(ValidationError, match="delay"):
        Note.objects.enqueue_many([{"retry_at": due}], delay=1)


def test_relations_are_given_as_objects_or_keys():
    person = Person.objects.create(code="ann")
    Portrait.objects.enqueue_many([{"sitter": person, "by_code": person}])
    Portrait.objects.enqueue_many([{"sitter_id": person.pk, "by_code_id": "ann"}])
    assert Portrait.objects.filter(sitter=person, by_code=person).count() == 2


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"sitter": Person(code="unsaved")}, "sitter: .* no saved queueapp.Person"),
        ({"sitter": Note(pk=1)}, "sitter: .* no saved queueapp.Person"),
        ({"wants": Person(pk=1)}, "wants: .* no relation"),
        ({"sitter": None, "sitter_id": None}, "named twice: sitter, sitter_id"),
    ],
)
def test_objects_that_name_no_row_are_refused(columns, said):
    with pytest.raises(ValueError, match=said):
        Portrait.objects.enqueue_many([columns])
    assert not Portrait.objects.exists()


def test_a_value_that_is_refused_leaves_the_callers_transaction_usable():
    with transaction.atomic():
        with pytest.raises(ValidationError):
            Note.objects.enqueue_many([{"priority": 1}, {"priority": -1}])
        Note.objects.create()
    assert Note.objects.count() == 1


def test_keys_may_be_given():
    Note.objects.enqueue_many([{"id": 77777}])
    assert Note.objects.get().pk == 77777


def test_keys_that_are_made_in_python_are_made_for_every_row():
    Uuid.objects.enqueue_many([{"text": "a"}, {"text": "b"}])
    assert Uuid.objects.values("pk").distinct().count() == 2


def test_a_field_that_does_more_than_keep_its_value_is_written_through_instances():
    assert is_simple(Note)
    assert not is_simple(Filed)
    assert Filed.objects.enqueue_many([{"a_file": "files/a.txt"}], delay=60) == 1
    job = Filed.objects.get()
    assert (job.a_file.name, job.status) == ("files/a.txt", Status.DELAYED)


@pytest.mark.parametrize("way", ["auto_now", "auto_now_add"])
def test_a_moment_that_the_instance_would_note_needs_one(way):
    with isolate_apps("tests.queueapp"):

        class Dated(Job):
            noted = models.DateTimeField(**{way: True})  # type: ignore[arg-type]

            class Meta(Job.Meta):
                app_label = "queueapp"

    assert not is_simple(Dated)
