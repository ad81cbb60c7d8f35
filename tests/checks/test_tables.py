"""What the system checks find, and that they find nothing in a sound project."""

import pytest
from django.db import connection, models
from django.test import override_settings
from django.test.utils import isolate_apps

from django_dbqueue.checks import tables
from django_dbqueue.conf import conf, wrong_values
from django_dbqueue.dialects.postgresql import PostgreSQL
from django_dbqueue.fields import NameField
from django_dbqueue.mail.conf import mail_conf
from django_dbqueue.models import ArchivedJob, Job, JobManager, JobQuerySet, KeyedJob
from tests.queueapp.models import Kept, Note, Uuid

pytestmark = pytest.mark.usefixtures("db_rows")


APP = "queueapp"


@pytest.fixture(autouse=True)
def _throwaway_models():
    with isolate_apps("tests.queueapp"):
        yield


def ids(model):
    messages = tables.check_table(model)
    assert all(message.hint for message in messages)
    return [message.id.removeprefix("dbqueue.") for message in messages]


def text(model):
    return " ".join(f"{message.msg} {message.hint}" for message in tables.check_table(model))


def test_a_sound_table_passes():
    assert ids(Note) == ids(Kept) == []


def test_a_meta_without_the_indexes_of_keys_is_found():
    class Keyless(KeyedJob):
        class Meta(Job.Meta):
            app_label = APP

    assert ids(Keyless) == ["E001"]
    assert "class Meta(KeyedJob.Meta)" in text(Keyless)


def test_a_meta_without_ours_is_found():
    class Bare(Job):
        class Meta:
            app_label = APP
            verbose_name = "bare"

    class NoIndexes(Job):
        class Meta(Job.Meta):
            app_label = APP
            indexes = [models.Index(fields=["queue"])]

    class NoConstraint(Job):
        class Meta(Job.Meta):
            app_label = APP
            constraints = []

    assert ids(Bare) == ids(NoIndexes) == ids(NoConstraint) == ["E001"]
    assert "Job.Meta" in text(Bare)
    assert "constraint" in text(NoConstraint)


def test_a_meta_with_more_than_ours_passes():
    class More(Job):
        class Meta(Job.Meta):
            app_label = APP
            indexes = [*Job.Meta.indexes, models.Index(fields=["created_at"])]
            ordering = ["-pk"]

    assert ids(More) == []


def test_a_redefined_column_is_found():
    class OwnStatus(Job):
        status = models.CharField(max_length=10)  # type: ignore[assignment]

        class Meta(Job.Meta):
            app_label = APP

    class OwnTime(Job):
        retry_at = models.DateTimeField(null=True)

        class Meta(Job.Meta):
            app_label = APP

    class NoErrors(Job):
        errors = None

        class Meta(Job.Meta):
            app_label = APP

    class ShortQueue(Job):
        queue = models.CharField(max_length=20)

        class Meta(Job.Meta):
            app_label = APP

    assert [ids(m) for m in (OwnStatus, OwnTime, NoErrors, ShortQueue)] == [["E002"]] * 4
    assert "'status'" in text(OwnStatus)


def test_another_default_queue_is_allowed():
    class Reports(Job):
        queue = NameField(default="reports")
        priority = models.BigIntegerField(default=5)

        class Meta(Job.Meta):
            app_label = APP

    assert ids(Reports) == []


def test_a_redefined_verb_is_found():
    class Method(Job):
        class Meta(Job.Meta):
            app_label = APP

        def complete(self):
            pass

    class Hook(Job):
        class Meta(Job.Meta):
            app_label = APP

        def _judged(self):  # type: ignore[override]
            pass

    class Field(Job):
        release = models.CharField(max_length=10)  # type: ignore[assignment]
        state = models.CharField(max_length=10)

        class Meta(Job.Meta):
            app_label = APP

    class Mixin:
        def fail(self):
            pass

    class Mixed(Mixin, Job):
        class Meta(Job.Meta):
            app_label = APP

    assert ids(Method) == ids(Hook) == ids(Mixed) == ["E003"]
    assert ids(Field) == ["E003", "E003"]
    assert "'complete'" in text(Method)


def test_what_refers_to_jobs_may_be_called_as_a_verb_unless_a_job_would_lose_the_verb():
    class Referred(Job):
        class Meta(Job.Meta):
            app_label = APP

    class Run(models.Model):
        job = models.ForeignKey(Referred, models.CASCADE)

        class Meta:
            app_label = APP

    class Hidden(Job):
        class Meta(Job.Meta):
            app_label = APP

    class Release(models.Model):
        job = models.OneToOneField(Hidden, models.CASCADE)

        class Meta:
            app_label = APP

    assert hasattr(Referred, "run_set")
    assert ids(Referred) == []
    assert ids(Hidden) == ["E003"]


def test_what_a_table_is_meant_to_define_is_allowed():
    class Sound(Job):
        class Meta(Job.Meta):
            app_label = APP

        class Policy:
            max_attempts = 3

        def __str__(self):
            return "sound"

        def run(self):
            pass

        @classmethod
        def run_batch(cls, jobs):
            pass

        def save(self, *args, **kwargs):
            super().save(*args, **kwargs)

    assert ids(Sound) == []


def test_a_foreign_default_manager_is_found():
    class Foreign(Job):
        objects = models.Manager()  # type: ignore[assignment]

        class Meta(Job.Meta):
            app_label = APP

    class OwnQuerySet(JobQuerySet):
        pass

    class Derived(Job):
        objects = JobManager.from_queryset(OwnQuerySet)()

        class Meta(Job.Meta):
            app_label = APP

    assert ids(Foreign) == ["E004"]
    assert ids(Derived) == []


def test_a_child_of_a_queue_table_is_found():
    class Parent(Job):
        class Meta(Job.Meta):
            app_label = APP

    class Child(Parent):
        class Meta:
            app_label = APP

    class WithIndexes(Parent):
        class Meta(Job.Meta):
            app_label = APP

    assert "E005" in ids(Child)
    assert ids(WithIndexes) == ["E005"]
    assert ids(Parent) == []


def test_a_child_of_a_model_that_is_no_queue_table_is_found():
    class Base(models.Model):
        class Meta:
            app_label = APP

    class Child(Job, Base):
        class Meta(Job.Meta):
            app_label = APP

    assert ids(Child) == ["E005"]


def test_a_key_of_another_name_is_found():
    class Numbered(Job):
        number = models.BigAutoField(primary_key=True)

        class Meta(Job.Meta):
            app_label = APP

    assert ids(Numbered) == ["E006"]
    assert "db_column" in text(Numbered)


@pytest.mark.parametrize("name", ["queue", "status", "retry_at"])
def test_a_column_of_an_index_that_was_taken_out_is_found(name):
    meta = type("Meta", (Job.Meta,), {"app_label": APP})
    model = type("Lacking", (Job,), {"__module__": __name__, "Meta": meta, name: None})
    assert ids(model) == ["E002"]


def test_a_composite_key_is_found():
    class Composite(Job):
        pk = models.CompositePrimaryKey("queue", "id")
        id = models.BigIntegerField()

        class Meta(Job.Meta):
            app_label = APP

    class WithoutId(Job):
        pk = models.CompositePrimaryKey("queue", "number")
        number = models.BigIntegerField()

        class Meta(Job.Meta):
            app_label = APP

    assert ids(Composite) == ids(WithoutId) == ["E006"]


def test_a_key_that_does_not_grow_is_a_warning():
    assert ids(Uuid) == ["W001"]


def test_an_unknown_option_is_found_and_the_nearest_named():
    class Typo(Job):
        class Meta(Job.Meta):
            app_label = APP

        class Policy:
            max_attemps = 3

    assert ids(Typo) == ["E007"]
    assert "'max_attempts'" in text(Typo)


def test_a_whole_number_may_be_a_float_and_a_timeout_none():
    given = {"THREADS": 2.0, "MAIL_TIMEOUT": None}
    with override_settings(DBQUEUE=given):
        assert wrong_values() == []
        assert (repr(conf["THREADS"]), mail_conf["TIMEOUT"]) == ("2", None)
    with override_settings(DBQUEUE={"THREADS": 1.5, "SLEEP": None}):
        assert len(wrong_values()) == 2


@override_settings(DBQUEUE={"WORKER_TIMOUT": 5, "THREADS": 2})
def test_an_unknown_setting_is_found_and_the_nearest_named():
    [message] = tables.check_settings()
    assert message.id == "dbqueue.E008"
    assert "WORKER_TIMOUT" in message.msg
    assert "'WORKER_TIMEOUT'" in message.hint


def test_a_variable_that_looks_like_that_of_a_setting_is_found_and_the_setting_named(monkeypatch):
    monkeypatch.setenv("DBQUEUE_TREADS", "8")
    [message] = tables.check_settings()
    assert message.id == "dbqueue.W005"
    assert "DBQUEUE_TREADS" in message.msg
    assert "DBQUEUE_THREADS?" in message.hint


@pytest.mark.parametrize(
    "name", ["THREADS", "MAIL_TIMEOUT", "CONFIG", "DATABASE_URL", "MAIL_USER", "PROBE_PATH"]
)
def test_a_variable_that_is_read_or_may_be_a_projects_own_is_none(monkeypatch, name):
    monkeypatch.setenv(f"DBQUEUE_{name}", "8")
    assert tables.check_settings() == []


@override_settings(DBQUEUE={"NOTIFY": True})
def test_a_wish_for_notifications_that_no_database_grants_is_found(monkeypatch):
    found = [message.id for message in tables.check_settings()]
    assert found == ([] if connection.vendor == "postgresql" else ["dbqueue.W003"])
    monkeypatch.setattr(PostgreSQL, "can_notify", lambda: False)  # as with psycopg2
    assert [message.id for message in tables.check_settings()] == ["dbqueue.W003"]


def test_a_missing_or_unlike_archive_is_found():
    class Lost(Job):
        class Meta(Job.Meta):
            app_label = APP

        class Policy:
            archive = "queueapp.Nowhere"

    class Narrow(ArchivedJob):
        class Meta(ArchivedJob.Meta):
            app_label = APP

    class Wide(Job):
        text = models.TextField()

        class Meta(Job.Meta):
            app_label = APP

        class Policy:
            archive = "queueapp.Narrow"

    assert ids(Lost) == ids(Wide) == ["E009"]
    assert "text" in text(Wide)
