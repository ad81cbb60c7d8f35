"""A claimed job is an instance like any other, though most are not made by Django's initialiser."""

import pytest
from django.db import models
from django.db.models.signals import post_init, pre_init

from django_dbqueue.lifecycle.instances import is_quiet
from tests.kit.jobs import claim_one, forget_tables, fresh
from tests.queueapp.models import Everything, Filed, Note

pytestmark = pytest.mark.usefixtures("db_rows")


def an_init(self, *args, **kwargs):
    models.Model.__init__(self, *args, **kwargs)
    self.seen = "init"


def a_setattr(self, name, value):
    object.__setattr__(self, name, value)
    object.__setattr__(self, "seen", "setattr")


@classmethod
def a_from_db(cls, db, names, values):
    job = models.Model.from_db.__func__(cls, db, names, values)  # type: ignore[attr-defined]
    job.seen = "from_db"
    return job


@pytest.fixture
def changed_class(monkeypatch):
    yield monkeypatch.setattr
    forget_tables()


@pytest.mark.parametrize(
    ("name", "way", "seen"),
    [
        ("__init__", an_init, "init"),
        ("__setattr__", a_setattr, "setattr"),
        ("from_db", a_from_db, "from_db"),
    ],
)
def test_what_a_model_does_of_its_own_when_a_row_is_read_is_done(changed_class, name, way, seen):
    Note.objects.create(text="mine")
    assert is_quiet(Note, ["text"])
    changed_class(Note, name, way, raising=False)
    forget_tables()
    job = claim_one(Note)
    assert (job.seen, job.text, job.attempts) == (seen, "mine", 1)
    assert job.claim_owner == job.owner == fresh(job).owner


@pytest.mark.parametrize("signal", [pre_init, post_init])
def test_whoever_is_told_of_each_instance_is_told(signal):
    made = []

    def receiver(sender, **_):
        made.append(sender)

    Note.objects.create()
    signal.connect(receiver, sender=Note)
    try:
        claim_one(Note)
    finally:
        signal.disconnect(receiver, sender=Note)
    assert made == [Note]


def test_a_field_that_does_more_than_keep_its_value_is_assigned_to():
    assert is_quiet(Everything, [f.attname for f in Everything._meta.concrete_fields])
    assert not is_quiet(Filed, ["a_file"])
    Filed.objects.create(a_file="files/a.txt")
    assert claim_one(Filed).a_file.url == "/files/a.txt"


def test_what_was_not_fetched_is_loaded_when_somebody_asks():
    created = Note.objects.create(text="first")
    job = claim_one(Note)
    assert {"created_at", "errors"} <= job.get_deferred_fields()
    assert job.created_at == created.created_at
    assert "created_at" not in job.get_deferred_fields()


def test_it_is_saved_compared_and_refreshed_like_any_other():
    created = Note.objects.create(text="first")
    job = claim_one(Note)
    assert job == created
    assert hash(job) == hash(created)
    job.text = "second"
    job.save()
    job.refresh_from_db()
    assert (job.text, job.attempts) == ("second", 1)
