"""Every kind of column survives a claim; the fields and the index of a queue table."""

import datetime
import decimal
import gc
import uuid
import weakref
import zoneinfo
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import connection
from django.db.migrations.autodetector import MigrationAutodetector
from django.db.migrations.state import ModelState, ProjectState
from django.db.migrations.writer import MigrationWriter
from django.db.models import CASCADE, Avg, CharField, Count, F, ForeignKey, GeneratedField, Model
from django.db.models.functions import Coalesce, TruncDay
from django.db.models.signals import post_init
from django.test import override_settings
from django.test.utils import isolate_apps
from django.utils import timezone

from django_dbqueue.fields import DbNow, InstantField, NameField
from django_dbqueue.lifecycle.table import conversions, table_of
from django_dbqueue.models import HotIndex, Job
from tests.kit.jobs import claim_one, fresh, start
from tests.queueapp.models import Everything, Note, Owner

pytestmark = pytest.mark.usefixtures("db_rows")


def plain(**changes):
    return {
        "a_char": "char",
        "a_text": "text",
        "a_slug": "slug",
        "a_url": "https://example.com/",
        "an_email": "a@example.com",
        "an_int": 1,
        "a_small": 1,
        "a_big": 1,
        "a_positive": 1,
        "a_positive_big": 1,
        "a_positive_small": 1,
        "a_float": 1.5,
        "a_decimal": decimal.Decimal("1.5"),
        "a_date": datetime.date(2024, 2, 29),
        "a_time": datetime.time(1, 2, 3),
        "a_datetime": timezone.now(),
        "an_instant": timezone.now(),
        "a_duration": datetime.timedelta(seconds=1),
        "a_json": {"a": [1, None, "ü"]},
        "a_binary": b"bytes",
        "an_ip": "127.0.0.1",
        "a_file_path": "/etc/hostname",
        **changes,
    }


EDGES: dict[str, dict[str, Any]] = {
    "plain": {},
    "empty": {
        "a_text": "",
        "a_char": "",
        "a_json": {},
        "a_binary": b"",
        "a_bool": False,
    },
    "lowest": {
        "an_int": -(2**31),
        "a_small": -(2**15),
        "a_big": -(2**63),
        "a_positive": 0,
        "a_decimal": decimal.Decimal("-99999999.9999"),
        "a_duration": datetime.timedelta(days=-1000, microseconds=1),
        "a_time": datetime.time(0),
        "a_null_bool": False,
    },
    "highest": {
        "an_int": 2**31 - 2,
        "a_small": 2**15 - 1,
        "a_big": 2**63 - 1,
        "a_positive_big": 2**63 - 1,
        "a_decimal": decimal.Decimal("99999999.9999"),
        "a_duration": datetime.timedelta(days=1000, microseconds=999999),
        "a_time": datetime.time(23, 59, 59, 999999),
        "a_float": 1e300,
        "a_null_bool": True,
    },
    "odd": {
        "a_text": "%s %% 'quoted' \"double\" \\ back\nline 𝄞",
        "a_json": [True, 1.5, None, "\u2028", {"é": {}}],
        "a_binary": bytes(range(256)),
        "an_ip": "2001:db8::1",
        "a_uuid": uuid.UUID(int=0),
        "a_date": datetime.date(1, 1, 1),
    },
    "text as JSON": {"a_json": '"quoted"'},
}

# What some of the edges give, and rows that are inserted together have to give all alike.
LEAST = {"a_bool": True, "a_null_bool": None, "a_uuid": uuid.UUID(int=1)}


@pytest.fixture
def listener():
    """Somebody who wants to be told of each instance."""
    made = []

    def receiver(sender, **_):
        made.append(sender)

    post_init.connect(receiver, sender=Everything)
    yield made
    post_init.disconnect(receiver, sender=Everything)


@pytest.mark.parametrize("make", ["by hand", "by Django"])
@pytest.mark.parametrize("changes", EDGES.values(), ids=EDGES.keys())
def test_every_field_type_survives_a_claim_and_a_save(changes, make, request):
    if make == "by Django":
        request.getfixturevalue("listener")
    Everything.objects.create(an_owner=Owner.objects.create(name="o"), **plain(**changes))
    read = Everything.objects.get()
    job = claim_one(Everything)
    for field in Everything._meta.concrete_fields:
        if field.name in {"status", "owner", "attempts", "dequeued_time", "retry_at"}:
            continue
        kept, claimed = getattr(read, field.attname), getattr(job, field.attname)
        assert (kept, type(kept)) == (claimed, type(claimed)), field.name
    job.run()
    job.complete()
    after = fresh(job)
    assert after.a_text == f"{read.a_text} ran"
    for field in Everything._meta.concrete_fields:
        if field.name.startswith(("a_", "an_")) and field.name != "a_text":
            assert getattr(after, field.attname) == getattr(read, field.attname), field.name


def test_rows_of_every_field_type_are_written_together_as_one_by_one():
    owner = Owner.objects.create(name="o")
    rows = [plain(**{"an_owner": owner, **LEAST, **changes}) for changes in EDGES.values()]
    for row in rows:
        Everything.objects.create(**row)
    Everything.objects.enqueue_many(rows)
    names = [field.attname for field in Everything._meta.concrete_fields]
    compared = [name for name in names if name not in {"id", "created_at"}]
    written = [
        {name: bytes(value) if name == "a_binary" else value for name, value in row.items()}
        for row in Everything.objects.order_by("pk").values(*compared)
    ]
    assert written[len(rows) :] == written[: len(rows)]


def test_a_claimed_job_knows_its_relations():
    Everything.objects.create(an_owner=Owner.objects.create(name="o"), **plain())
    job = claim_one(Everything)
    assert job.an_owner.name == "o"
    assert job._state.db == "default"
    assert not job._state.adding


def test_no_migration_is_needed_after_a_round_trip():
    """What a migration file keeps of a queue table is the whole of it."""
    written = ProjectState()
    for model in apps.get_app_config("queueapp").get_models():
        written.add_model(round_trip(ModelState.from_model(model)))
    now = ProjectState()
    for model in apps.get_app_config("queueapp").get_models():
        now.add_model(ModelState.from_model(model))
    detector = MigrationAutodetector(written, now)
    assert detector._detect_changes() == {}  # type: ignore[attr-defined]


def round_trip(state):
    names = {"indexes": state.options["indexes"], "constraints": state.options["constraints"]}
    for option, parts in names.items():
        state.options[option] = [written_and_read(part) for part in parts]
    for name, field in state.fields.items():
        if isinstance(field, (InstantField, NameField)):
            state.fields[name] = written_and_read(field)
    return state


def written_and_read(part):
    text, imports = MigrationWriter.serialize(part)
    scope = {}
    exec("\n".join(imports), scope)
    return eval(text, scope)


def test_the_paths_in_migrations_never_move():
    assert DbNow().deconstruct()[0] == "django_dbqueue.fields.DbNow"
    assert InstantField().deconstruct()[1] == "django_dbqueue.fields.InstantField"
    assert NameField().deconstruct()[1] == "django_dbqueue.fields.NameField"
    index = Note._meta.indexes[0]
    assert isinstance(index, HotIndex)
    assert index.deconstruct()[0] == "django_dbqueue.models.index.HotIndex"


def test_the_hot_indexes_are_partial_where_the_database_can():
    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(cursor, Note._meta.db_table)
    claiming, moving = (found[index.name]["columns"] for index in Note._meta.indexes[:2])
    if connection.features.supports_partial_indexes:
        assert claiming == ["queue", "priority", "id"]
        assert "WHERE" in index_sql(Note._meta.indexes[0])
    else:
        assert claiming == ["status", "queue", "priority", "id"]
        assert "WHERE" not in index_sql(Note._meta.indexes[0])
    is_partial = connection.features.supports_partial_indexes
    assert moving == ["status", "retry_at", *([] if is_partial else ["failed_at"])]


def test_the_index_over_buried_jobs_is_only_made_where_it_can_be_partial():
    buried = Note._meta.indexes[2]
    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(cursor, Note._meta.db_table)
    if connection.features.supports_partial_indexes:
        assert found[buried.name]["columns"] == ["id"]
        assert "WHERE" in index_sql(buried)
    else:
        assert buried.name not in found


def index_sql(index):
    return str(index.create_sql(Note, connection.schema_editor()))


def test_the_hot_indexes_can_be_dropped_and_made_again():
    before = index_names()
    assert before
    with connection.schema_editor() as editor:
        for index in Note._meta.indexes:
            editor.remove_index(Note, index)
            editor.add_index(Note, index)
    assert index_names() == before


def index_names():
    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(cursor, Note._meta.db_table)
    return {index.name for index in Note._meta.indexes} & set(found)


def test_an_instant_that_utc_has_no_year_for_is_refused_by_name():
    west = override_settings(USE_TZ=False, TIME_ZONE="America/New_York")
    with west, pytest.raises(ValidationError, match="expires_at must be a datetime"):
        Note.objects.enqueue(expires_at=datetime.datetime.max)


@pytest.mark.parametrize("name", ["UTC", "Asia/Kathmandu"])
def test_instants_are_truncated_to_days_of_the_projects_zone(name):
    knows_zones = connection.features.has_zoneinfo_database
    if not settings.USE_TZ or (name != "UTC" and not knows_zones):
        return  # nor does Django know the zone
    instant = datetime.datetime(2024, 7, 1, 20, 50, tzinfo=datetime.UTC)
    for due in [instant, instant + datetime.timedelta(minutes=1), *[None] * knows_zones]:
        Note.objects.create(retry_at=due)
    with override_settings(TIME_ZONE=name):
        zone = timezone.get_default_timezone()
        of_each = dict(Note.objects.values_list(TruncDay("retry_at")).annotate(Count("pk")))
    midnight = datetime.datetime.combine(instant.astimezone(zone), datetime.time(), zone)
    assert of_each.pop(None, 1) == 1
    assert of_each == {midnight: 2}


def test_the_time_between_two_instants_can_be_asked_for():
    begin = timezone.now()
    for days in (100, 300):
        Note.objects.create(retry_at=begin, expires_at=begin + datetime.timedelta(days=days))
    took = F("expires_at") - F("retry_at")
    assert Note.objects.aggregate(mean=Avg(took)) == {"mean": datetime.timedelta(days=200)}
    long = Note.objects.annotate(took=took).filter(took__gt=datetime.timedelta(days=299))
    assert [note.took for note in long] == [datetime.timedelta(days=300)]
    age = Note.objects.annotate(age=DbNow() - F("created_at")).first().age
    assert datetime.timedelta(0) <= age < datetime.timedelta(minutes=1)


@override_settings(USE_TZ=True)
def test_an_instant_is_the_same_in_whichever_zone_a_database_answers():
    instant = datetime.datetime(2024, 7, 1, 20, 50, tzinfo=datetime.UTC)
    answer = instant.astimezone(zoneinfo.ZoneInfo("Asia/Kathmandu"))
    column = Note._meta.get_field("created_at").get_col("queueapp_note")
    assert InstantField().from_db_value(answer, column, connection) == instant


class Shouted(CharField):
    def from_db_value(self, value, expression, connection):
        return value.upper()


@isolate_apps("tests.queueapp")
@override_settings(USE_TZ=False, TIME_ZONE="Asia/Kathmandu")
def test_a_claim_reads_a_column_as_the_field_does_whose_values_it_has():
    class Code(Model):
        code = Shouted(primary_key=True, max_length=9)

        class Meta:
            app_label = "queueapp"

    class Coded(Job):
        code = ForeignKey(Code, CASCADE)
        until = GeneratedField(
            expression=Coalesce("expires_at", "retry_at"),
            output_field=InstantField(),
            db_persist=True,
        )

        class Meta(Job.Meta):
            app_label = "queueapp"

    read = {"code": "ab", "until": datetime.datetime(2024, 7, 1, 20, 50)}
    if connection.vendor == "sqlite":
        read["until"] = str(read["until"])
    columns: list[Any] = [Coded._meta.get_field(name) for name in read]
    values = list(read.values())
    for position, converters, expression in conversions(columns, connection):
        for convert in converters:
            values[position] = convert(values[position], expression, connection)
    assert values == ["AB", datetime.datetime(2024, 7, 2, 2, 35)]
    table = table_of(Coded, "default")
    until = table.dialect.readable_column(table.dialect.read_column("until"))
    assert f"{until}, " in table.columns


def test_an_instant_field_takes_no_auto_now():
    with pytest.raises(TypeError, match="DbNow"):
        InstantField(auto_now=True)


def test_a_thread_that_ended_leaves_no_connection_behind():
    def use():
        from django.db import connections

        Note.objects.claim()
        return weakref.ref(connections["default"])

    left = start(use).result()
    gc.collect()
    assert left() is None


@pytest.mark.parametrize("name", ["x" * 201, "a\tb", "\u202eab"])
def test_a_bad_name_is_told_by_its_field_as_forms_ask(name):
    with pytest.raises(ValidationError) as refused:
        Note(queue=name).full_clean()
    [message] = refused.value.message_dict["queue"]
    assert message.startswith("queue ") or "at most 200" in message
