"""``bulk_create`` and ``enqueue_many`` write any value as ``create`` does, in whatever batch."""

import datetime
import uuid
from decimal import Decimal
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import DataError, IntegrityError, connection, models, transaction
from django.test.utils import CaptureQueriesContext, isolate_apps

from django_dbqueue.fields import NameField
from django_dbqueue.lifecycle.bulk_columns import ROWS_MAX
from django_dbqueue.models import Job
from testproject.shop.models import Photo, Thumbnail
from tests.queueapp.models import Note, Unique, Uuid

pytestmark = pytest.mark.usefixtures("db_rows")

NOON = datetime.datetime(2026, 3, 29, 12, 30, 0, 123456, tzinfo=datetime.UTC)
SUMMER = datetime.timezone(datetime.timedelta(hours=5, minutes=45))
VALUES: dict[str, list[Any]] = {
    "a_text": [None, "", "x" * 9000, "wörter 😀", '{a,"b"}', "NULL", "\\", "a\tb\n", "%s %(a)s"],
    "an_int": [None, 0, -1, 2**31 - 1, -(2**31), True],
    "a_big": [2**63 - 1, -(2**63), 7],
    "a_float": [None, 0.0, -1.5, 1e308, 5e-324, 0.1, 3.0, 1, float(2**53)],
    "a_bool": [True, False, None],
    "a_decimal": [None, Decimal("0.0001"), Decimal("-99999999.9999"), 5],
    "a_date": [None, NOON.date(), datetime.date(1, 1, 1)],
    "a_time": [None, NOON.time(), datetime.time(0)],
    "a_moment": [None, NOON, NOON.astimezone(SUMMER)],
    "a_duration": [None, datetime.timedelta(days=-3, microseconds=1), datetime.timedelta(0)],
    "a_uuid": [None, uuid.UUID(int=0), uuid.UUID(int=2**128 - 1)],
    "a_json": [None, {"a": [1, "ü", None, "'"]}, [], "text", 5, 0.5, True],
    "bits": [b"", b"\x00\xff'\\%s", b"plain", bytearray(b"array"), memoryview(b"view"), None],
    "a_name": [None, "a name", "ä"],
    "roman": [None, 4, 9],
    "expires_at": [None, NOON, NOON.astimezone(SUMMER)],
    "time_to_run": [None, 1, 60],
}


class Roman(models.Field):
    """A number, written in letters."""

    LETTERS = {4: "IV", 9: "IX"}

    def db_type(self, connection):
        return "varchar(9)"

    def get_db_prep_save(self, value, connection):
        return self.LETTERS.get(value)

    def from_db_value(self, value, expression, connection):
        return {letters: number for number, letters in self.LETTERS.items()}.get(value)


@pytest.fixture
def odd():
    """A queue table with columns of many types."""
    with isolate_apps("tests.queueapp"):

        class Odd(Job):
            a_text = models.TextField(null=True)
            an_int = models.IntegerField(null=True)
            a_big = models.BigIntegerField(default=0)
            a_float = models.FloatField(null=True)
            a_bool = models.BooleanField(null=True)
            a_decimal = models.DecimalField(max_digits=12, decimal_places=4, null=True)
            a_date = models.DateField(null=True)
            a_time = models.TimeField(null=True)
            a_moment = models.DateTimeField(null=True)
            a_duration = models.DurationField(null=True)
            a_uuid = models.UUIDField(null=True)
            a_json = models.JSONField(null=True)
            bits = models.BinaryField(default=b"", null=True)
            a_name = NameField(null=True)
            roman = Roman(null=True)

            class Meta(Job.Meta):
                app_label = "queueapp"

        yield from kept(Odd)


def kept(model):
    with connection.schema_editor() as editor:
        editor.create_model(model)
    try:
        yield model
    finally:
        with connection.schema_editor() as editor:
            editor.delete_model(model)


def rows_of(model):
    """Their values, with their types."""
    found = list(model.objects.order_by("pk").values())
    model.objects.all().delete()
    left_out = {"id", "created_at"}
    return [{n: shown(value) for n, value in row.items() if n not in left_out} for row in found]


def shown(value):
    return repr(bytes(value) if isinstance(value, memoryview) else value)


@pytest.mark.parametrize("name", VALUES)
def test_each_value_is_written_as_create_writes_it(odd, name):
    rows = [{name: value} for value in VALUES[name]]
    for columns in (rows, *([row] * 2 for row in rows)):
        for row in columns:
            odd.objects.create(**row)
        created = rows_of(odd)
        odd.objects.bulk_create([odd(**row) for row in columns])
        assert rows_of(odd) == created
        odd.objects.enqueue_many(columns)
        assert rows_of(odd) == created


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("an_int", 2**63),
        ("a_big", 2**63),
        ("an_int", "many"),
        ("a_float", "much"),
        ("a_decimal", "none"),
        ("a_uuid", "none"),
        ("a_name", " spaced "),
        ("priority", -1),
        ("expires_at", "soon"),
    ],
)
@pytest.mark.parametrize("way", ["bulk_create", "enqueue_many"])
def test_a_row_that_is_refused_leaves_none_behind(odd, way, name, value):
    good = VALUES.get(name, [0])[-1]
    rows = [{name: good}, {name: value}, {name: good}]
    given = [odd(**row) for row in rows] if way == "bulk_create" else rows
    with pytest.raises((ValueError, TypeError, OverflowError, ValidationError, DataError)):
        getattr(odd.objects, way)(given)
    assert not odd.objects.exists()


@pytest.mark.skipif(connection.vendor != "postgresql", reason="others keep them")
@pytest.mark.parametrize("way", ["bulk_create", "enqueue_many"])
def test_half_a_text_is_never_written(way):
    rows = [{"text": "a"}, {"text": "a\0b"}]
    given = [Note(**row) for row in rows] if way == "bulk_create" else rows
    with pytest.raises((ValueError, DataError), match="NUL"):
        getattr(Note.objects, way)(given)
    assert not Note.objects.exists()


@pytest.mark.parametrize("count", [0, 1, ROWS_MAX, ROWS_MAX + 1])
@pytest.mark.parametrize("way", ["bulk_create", "enqueue_many"])
def test_a_batch_of_any_size_is_written_in_its_order(way, count):
    rows = [{"text": str(number), "seconds": number / 3} for number in range(count)]
    given = [Note(**row) for row in rows] if way == "bulk_create" else rows
    getattr(Note.objects, way)(given)
    found = Note.objects.order_by("pk").values_list("text", "seconds")
    assert list(found) == [(row["text"], row["seconds"]) for row in rows]


@pytest.mark.parametrize("way", ["bulk_create", "enqueue_many"])
def test_a_row_refused_in_the_last_batch_takes_all_back(way):
    rows = [{"code": number} for number in [*range(ROWS_MAX), 0]]
    given = [Unique(**row) for row in rows] if way == "bulk_create" else rows
    with pytest.raises(IntegrityError), transaction.atomic():
        getattr(Unique.objects, way)(given)
    assert not Unique.objects.exists()


def test_keys_made_in_python_are_those_of_the_rows():
    jobs = Uuid.objects.bulk_create([Uuid(text=str(number)) for number in range(3)])
    assert {job.pk: job.text for job in jobs} == dict(Uuid.objects.values_list("pk", "text"))
    assert not any(job._state.adding for job in jobs)


def test_jobs_that_are_given_instances_are_one_statement():
    photo = Photo.objects.create()
    with CaptureQueriesContext(connection) as statements:
        Thumbnail.objects.bulk_create([Thumbnail(photo=photo) for _ in range(100)])
    [insert] = [one["sql"] for one in statements if one["sql"].startswith("INSERT")]
    assert "owner" not in insert
    assert Thumbnail.objects.filter(photo=photo).count() == 100


@pytest.mark.skipif(connection.vendor != "postgresql", reason="PostgreSQL's")
def test_arrays_are_written_as_create_writes_them():
    from django.contrib.postgres.fields import ArrayField

    with isolate_apps("tests.queueapp"):

        class Listed(Job):
            words = ArrayField(models.TextField(), null=True)

            class Meta(Job.Meta):
                app_label = "queueapp"

        for model in kept(Listed):
            rows = [{"words": words} for words in (None, [], ["a", 'b"{},'], ["NULL"])]
            for row in rows:
                model.objects.create(**row)
            created = rows_of(model)
            model.objects.bulk_create([model(**row) for row in rows])
            assert rows_of(model) == created
            model.objects.enqueue_many(rows)
            assert rows_of(model) == created
