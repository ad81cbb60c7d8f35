"""What the system checks say of an archive that cannot take every job."""

from itertools import count
from uuid import uuid4

import pytest
from django.db import models
from django.test.utils import isolate_apps

from django_dbqueue.checks.tables import check_databases, check_table
from django_dbqueue.models import ArchivedJob, Job

APP = "queueapp"
number = count()
OWN = {"__module__": "tests.queueapp.models"}


@pytest.fixture(autouse=True)
def _throwaway_models():
    with isolate_apps("tests.queueapp"):
        yield


def model(base, meta, **attributes):
    meta = type("Meta", (base.Meta,), {"app_label": APP, "abstract": False} | meta)
    body = {"__module__": "tests.queueapp.models", "Meta": meta} | attributes
    return type(f"Throwaway{next(number)}", (base,), body)


def found(columns, *, queue_meta=None, archive_meta=None, archived=None):
    """The messages about a table with these columns, and an archive with the same ones."""
    archive = model(ArchivedJob, archive_meta or {}, **(archived or columns)())
    policy = type("Policy", (), {"archive": f"{APP}.{archive.__name__}"})
    return check_table(model(Job, queue_meta or {}, Policy=policy, **columns()))


def plain(**options):
    return lambda: {"invoice": models.IntegerField(**options), "part": models.IntegerField()}


def together(*columns, **options):
    return [models.UniqueConstraint(*columns, name=f"unique{next(number)}", **options)]


@pytest.mark.parametrize("is_unique", [True, False])
def test_a_unique_column_is_refused_in_the_archive_alone(is_unique):
    messages = found(plain(unique=True), archived=plain(unique=is_unique))
    assert [message.id for message in messages] == ["dbqueue.E022"] * is_unique
    assert all("unique there: invoice." in message.msg for message in messages)


def test_a_reference_that_only_one_job_may_have_is_refused():
    def owned():
        return {"owner_row": models.OneToOneField("auth.User", models.CASCADE, related_name="+")}

    assert [message.id for message in found(owned)] == ["dbqueue.E022"]


REFUSED = {
    "together": lambda: {"unique_together": [("invoice", "part")]},
    "a constraint": lambda: {"constraints": together(fields=["invoice", "part"])},
    "a condition": lambda: {
        "constraints": together(fields=["invoice"], condition=models.Q(part=1))
    },
    "an expression": lambda: {"constraints": together(models.F("invoice") + 1)},
}


@pytest.mark.parametrize("meta", REFUSED.values(), ids=REFUSED)
def test_a_unique_constraint_is_refused_in_the_archive_alone(meta):
    assert [message.id for message in found(plain(), archive_meta=meta())] == ["dbqueue.E022"]


@pytest.mark.parametrize("kind", ["unique_together", "constraints"])
def test_a_misspelt_column_is_for_django_to_name(kind):
    wrong = {"unique_together": [("invoic", "part")], "constraints": together(fields=["invoic"])}
    messages = found(plain(), archive_meta={kind: wrong[kind]})
    assert [message.id for message in messages] == ["dbqueue.E022"]


def test_a_unique_constraint_of_the_queue_table_alone_passes():
    extended = [*Job.Meta.constraints, *together(fields=["invoice"])]
    assert found(plain(), queue_meta={"constraints": extended}) == []


def test_what_each_job_makes_anew_may_be_unique():
    def made():
        return {"token": models.UUIDField(default=uuid4, unique=True)}

    assert found(made) == []
    with_key = {"constraints": together(fields=["id", "part"])}
    assert found(plain(), archive_meta=with_key) == []


def to_jobs(kind, *args, **options):
    return lambda jobs: {"job": kind(jobs, *args, related_name="+", **options)}


REFERS = {
    "a key": (to_jobs(models.ForeignKey, models.CASCADE), True),
    "one to one": (to_jobs(models.OneToOneField, models.CASCADE), True),
    "many": (to_jobs(models.ManyToManyField), True),
    "no constraint": (to_jobs(models.ForeignKey, models.DO_NOTHING, db_constraint=False), False),
    "many without": (to_jobs(models.ManyToManyField, db_constraint=False), False),
}


@pytest.mark.parametrize("policy", [{"prune_after": 0}, {"prune_after": 60}, {}], ids=str)
@pytest.mark.parametrize("name", REFERS)
def test_what_refers_to_jobs_that_leave_their_table_holds_them_there(name, policy):
    columns, is_found = REFERS[name]
    jobs = model(Job, {}, Policy=type("Policy", (), policy))
    other = type("Other", (models.Model,), {"Meta": type("Meta", (), {"abstract": True})} | OWN)
    model(other, {}, **columns(jobs))
    ids = [message.id for message in check_table(jobs)]
    assert ids == ["dbqueue.W016"] * (is_found and bool(policy))


@pytest.mark.parametrize("prune_after", [60, None])
def test_what_refers_to_archived_jobs_that_are_pruned_holds_them_there(prune_after):
    archive = model(ArchivedJob, {})
    policy = {"archive": archive._meta.label, "prune_after": prune_after}
    jobs = model(Job, {}, Policy=type("Policy", (), policy))
    other = type("Other", (models.Model,), {"Meta": type("Meta", (), {"abstract": True})} | OWN)
    model(other, {}, **to_jobs(models.ForeignKey, models.CASCADE)(archive))
    ids = [message.id for message in check_table(jobs)]
    assert ids == ["dbqueue.W016"] * (prune_after is not None)


class Apart:
    """Keeps what is archived away from the jobs, whose place it may need a job to tell."""

    def __init__(self, knows=True):
        self.knows = knows

    def allow_migrate(self, db, app_label, model_name=None, **hints):
        return model_name != "archivedkept"

    def db_for_write(self, model, **hints):
        return "default" if self.knows else hints["instance"].database


@pytest.mark.usefixtures("db_rows")
@pytest.mark.parametrize("knows", [True, False])
def test_an_archive_that_routers_keep_away_from_the_jobs_is_found(settings, knows):
    settings.DATABASE_ROUTERS = [Apart(knows)]
    messages = check_databases(databases=["default"])
    assert [message.id for message in messages] == ["dbqueue.E009"] * knows
    assert all("routers keep it away from 'default'" in message.msg for message in messages)
