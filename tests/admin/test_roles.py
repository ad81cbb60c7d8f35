"""Every page and every action of the admin as everybody: the table of what each gets."""

import logging
from pathlib import Path

import pytest
from django.contrib import admin
from django.test import override_settings

from django_dbqueue.beanstalk.models import TubeJob
from django_dbqueue.fields import DbNow
from django_dbqueue.mail.deliveries import Outcome
from django_dbqueue.models import Queue, Worker
from django_dbqueue.tasks.models import AsyncTask, Task
from tests.browser import scene
from tests.kit import admin_roles
from tests.kit.connections import empty_tables
from tests.kit.mail import archived, finished, letter
from tests.kit.mail_admin import fancy_letter
from tests.tasks import calls

pytestmark = pytest.mark.any_database  # permissions are Django's

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "admin-roles.md"
# A row of a queue has no page of its own, but a line in the overview.
LEAD_ELSEWHERE = {(Queue, "page change"), (Queue, "send change")}
HEAD = TABLE.read_text().partition("\n## ")[0] if TABLE.exists() else ""


@pytest.fixture(scope="module")
def found(django_db_setup, django_db_blocker):
    with django_db_blocker.unblock(), override_settings(**vars(scene.Settings())):
        # Every refusal would be logged with its traceback, which takes most of the time.
        logging.disable()
        rows = build()
        staff = admin_roles.Staff()
        try:
            yield [
                thing
                for model in admin_roles.MODELS
                for thing in admin_roles.ask_for_all(staff, model, rows[model])
            ]
        finally:
            logging.disable(logging.NOTSET)
            staff.leave()
            empty_tables()


def build():
    """The rows by their models; the one whose own page is asked for comes first."""
    scene.build()
    finished(letter("anna"), failed=True, anna=Outcome.IN_DOUBT)
    finished(fancy_letter())
    archived(finished(fancy_letter()))
    calls.noop.enqueue_many([(1,), (2,), (3,)])
    Task.objects.claim()
    Task.objects.filter(pk=Task.objects.ready().first().pk).bury()
    calls.slow_double.enqueue_many([(1,), (2,), (3,)])
    AsyncTask.objects.claim()
    AsyncTask.objects.filter(pk=AsyncTask.objects.ready().first().pk).bury()
    TubeJob.objects.bulk_create([TubeJob(body=b"a tube's") for _ in range(3)])
    TubeJob.objects.claim()
    TubeJob.objects.filter(pk=TubeJob.objects.ready().first().pk).bury()
    rows = {model: list(model._base_manager.order_by("-pk")) for model in admin_roles.MODELS}
    assert all(rows.values())
    # One that goes on beating, for as long as all this takes.
    alive = Worker.objects.filter(pk="a" * 32)
    alive.update(beat_at=DbNow(plus=3600))
    rows[Worker] = list(alive)
    return rows


def test_the_table_is_as_it_is_written_down(found):
    table = HEAD + admin_roles.as_markdown(found)
    made = ROOT / "build" / TABLE.name
    made.parent.mkdir(exist_ok=True)
    made.write_text(table)
    assert table == TABLE.read_text(), f"look at {made}, and put it into docs/ if that is right"


def test_every_admin_class_of_ours_is_in_the_table():
    ours = {
        model
        for model, one in admin.site._registry.items()
        if any(cls.__module__.startswith("django_dbqueue.") for cls in type(one).__mro__)
    }
    assert {one.__name__ for one in ours - set(admin_roles.MODELS)} <= {"Shared", "Thumbnail"}


def test_who_is_not_logged_in_gets_nothing(found):
    assert {thing.answers["anonymous"] for thing in found} == {admin_roles.LOG_IN}


def test_who_has_no_permission_for_a_model_gets_nothing_of_it(found):
    wrong = [
        (thing.model.__name__, thing.name, answer)
        for thing in found
        if (answer := thing.answers["all of other models"]) not in {"403", "405"}
        and (thing.model, thing.name) not in LEAD_ELSEWHERE
    ]
    assert wrong == []


def test_who_may_only_look_changes_nothing(found):
    assert [t.name for t in found if t.is_change and t.answers["read-only"] == "yes"] == []


def test_a_superuser_gets_whatever_is_offered(found):
    """Else a page was not asked for as it wants to be."""
    wrong = [
        (thing.model.__name__, thing.name, thing.answers["superuser"])
        for thing in found
        if thing.answers["superuser"] not in {"yes", "403", "405", "elsewhere"}
        and thing.name not in {"send add", "send change"}
    ]
    assert wrong == []


def test_who_may_not_look_gets_nothing_for_another_permission(found):
    """But for what Django grants with it: who may change may look."""
    wrong = [
        (thing.model.__name__, thing.name)
        for thing in found
        if thing.answers[admin_roles.BLIND] == "yes"
        and thing.name.partition(" ")[2] not in {*admin_roles.OF_DJANGO, "pause", "resume", "ask"}
    ]
    assert wrong == []


def test_every_change_by_a_superuser_is_in_the_log(found):
    wrong = [
        (thing.model.__name__, thing.name)
        for thing in found
        if thing.is_change and thing.answers["superuser"] == "yes" and not thing.logged
    ]
    assert wrong == []


@pytest.mark.parametrize("model", admin_roles.MODELS, ids=lambda model: model.__name__)
def test_every_action_names_its_permission(model):
    actions = admin_roles.offered(admin.site.get_model_admin(model))
    assert [name for name, it in actions.items() if not getattr(it, "allowed_permissions", 0)] == []


def test_what_changes_needs_one_permission_of_its_own(found):
    for thing in found:
        if thing.name.startswith("action "):
            happy = [
                role.removeprefix("view and ")
                for role, answer in thing.answers.items()
                if role.startswith("view and ") and answer == "yes"
            ]
            assert len(happy) <= 1, (thing.name, happy)
