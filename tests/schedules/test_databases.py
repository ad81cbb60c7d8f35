"""A schedule is on the database on which workers look for its jobs, and on no other."""

import json
import shutil

import django
import pytest
from asgiref.sync import async_to_sync
from django.core.management import CommandError, call_command

from django_dbqueue.schedules import schedule, synchronise
from django_dbqueue.schedules.checks import check_declared
from django_dbqueue.schedules.declared import DECLARED
from django_dbqueue.schedules.firing import run_due, run_now
from django_dbqueue.schedules.models import Schedule, Tick
from django_dbqueue.tasks.models import Task
from django_dbqueue.testing import virtual_clock
from tests.kit.clusters import alias_to
from tests.kit.schedules import START, scheduled
from tests.queueapp.models import Note
from tests.tasks import calls

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.any_database]

ADD = "/admin/dbqueue_schedules/schedule/add/"


class NotesInTheSouth:
    def db_for_write(self, model, **_hints):
        return "south" if model is Note else None


@pytest.fixture
def south(tmp_path, migrated):
    """Another database with all tables."""
    with alias_to(f"sqlite:///{shutil.copy(migrated, tmp_path)}", "south") as alias:
        yield alias


@pytest.fixture
def routed(settings, south):
    """The jobs of notes are there."""
    settings.DATABASE_ROUTERS = [NotesInTheSouth()]
    return south


@pytest.fixture
def declare():
    """As one deployment after the other does."""
    before = DECLARED[:]

    def declare(*call, **columns):
        DECLARED.clear()
        schedule(*call, **columns)
        for alias in ("default", "south"):
            synchronise.synchronise(alias)

    yield declare
    DECLARED[:] = before


def names():
    rows = {one: Schedule.objects.using(one).order_by("name") for one in ("default", "south")}
    return {one: list(found.values_list("name", flat=True)) for one, found in rows.items()}


def an_hour_later(clock):
    """How many jobs there are on both databases once an hour has gone by."""
    clock.move(3600)
    for alias in ("default", "south"):
        run_due(alias)
    return [Note.objects.using(alias).count() for alias in ("default", "south")]


def test_a_declaration_that_names_another_database_leaves_nothing_where_it_was(declare, south):
    with virtual_clock(START) as clock:
        declare("nightly", "every 1 h", Note)
        assert an_hour_later(clock) == [1, 0]
        declare("nightly", "every 1 h", Note, using=south)
        assert names() == {"default": [], "south": ["nightly"]}
        assert an_hour_later(clock) == [1, 1]


def test_a_table_that_is_routed_elsewhere_takes_what_is_declared_along(declare, south, settings):
    declare("nightly", "every 1 h", Note)
    settings.DATABASE_ROUTERS = [NotesInTheSouth()]
    declare("nightly", "every 1 h", Note)
    assert names() == {"default": [], "south": ["nightly"]}


def test_what_was_added_by_hand_stays_where_its_name_is_declared_elsewhere(declare, south):
    scheduled("nightly")
    declare("nightly", "every 1 h", Note, using=south)
    assert names() == {"default": ["nightly"], "south": ["nightly"]}


def test_a_declaration_that_is_wrong_by_now_leaves_its_row(declare, south):
    declare("nightly", "every 1 h", Note)
    declare("nightly", "often", Note)
    assert names() == {"default": ["nightly"], "south": []}


class NoSchedulesInTheSouth(NotesInTheSouth):
    def allow_migrate(self, db, app_label, **_hints):
        return False if (db, app_label) == ("south", "dbqueue_schedules") else None


@pytest.mark.parametrize(
    ("router", "using", "words"),
    [
        (None, "nowhere", "using: 'nowhere' is none of DATABASES"),
        (NoSchedulesInTheSouth, None, "using: the routers have no schedules on 'south'"),
    ],
)
def test_the_system_checks_name_a_declaration_that_nobody_would_heed(
    declare, south, settings, router, using, words
):
    settings.DATABASE_ROUTERS = [router()] if router else []
    DECLARED.clear()
    schedule("nightly", "every 1 h", Note, using=using)
    [error] = check_declared()
    assert (error.id, words in error.msg) == ("dbqueue_schedules.E001", True), error.msg


def test_the_system_checks_warn_of_a_database_where_only_a_worker_that_is_told_looks(
    declare, south, settings
):
    settings.DATABASE_ROUTERS = [NotesInTheSouth()]
    DECLARED.clear()
    schedule("nightly", "every 1 h", Note, using="default")
    [warning] = check_declared()
    assert warning.id == "dbqueue_schedules.W001"
    assert "a worker without --database has no jobs of it on 'default'" in warning.msg


def test_the_system_checks_take_any_database_where_no_router_has_a_say(declare, south):
    DECLARED.clear()
    schedule("nightly", "every 1 h", Note, using=south)
    schedule("greeting", "every 1 h", "tests.kit.schedules.greeter", using=south)
    assert check_declared() == []


class ByTenant(NotesInTheSouth):
    """It knows where a job belongs once the job says whose it is."""

    def db_for_write(self, model, instance=None, **hints):
        if isinstance(instance, Note):
            return {"north": "default"}[instance.text]
        return super().db_for_write(model, **hints)


def test_the_system_checks_leave_alone_what_no_router_can_tell_without_a_job(
    declare, south, settings
):
    settings.DATABASE_ROUTERS = [ByTenant()]
    DECLARED.clear()
    schedule("nightly", "every 1 h", Note, {"text": "north"}, using="default")
    assert check_declared() == []


def test_what_is_added_by_a_command_is_where_workers_look_for_its_jobs(routed, capsys):
    with virtual_clock(START) as clock:
        scheduled("taken", target="tests.kit.schedules.greeter", kind="task", arguments={})
        call_command("dbqueue", "schedule", "add", "taken", "every 1 h", "queueapp.Note")
        assert names() == {"default": ["taken"], "south": ["taken"]}
        said = capsys.readouterr().out
        assert said == "taken: every 1 h, next at 2031-01-15T13:00:00+00:00 (--database south)\n"
        with pytest.raises(CommandError, match="already exists"):
            call_command("dbqueue", "schedule", "add", "taken", "every 1 h", "queueapp.Note")
        assert an_hour_later(clock) == [0, 1]


def test_a_command_refuses_a_database_on_which_nobody_looks(routed):
    words = ("add", "nightly", "every 1 h", "queueapp.Note", "--database", "default")
    with pytest.raises(CommandError, match=r"jobs of queueapp\.Note on south, not on default"):
        call_command("dbqueue", "schedule", *words)
    assert names() == {"default": [], "south": []}


def test_a_command_takes_any_database_where_no_router_has_a_say(south):
    """Workers that are told so look there."""
    words = ("add", "nightly", "every 1 h", "queueapp.Note", "--database", south)
    call_command("dbqueue", "schedule", *words)
    assert names() == {"default": [], "south": ["nightly"]}


class ReadsFromTheSouth:
    """As from a replica, which has not heard of it yet."""

    def db_for_read(self, model, **_hints):
        return "south"

    def db_for_write(self, model, **_hints):
        return "default"


def test_a_schedule_is_read_where_it_is_written(south, settings):
    schedule = scheduled("nightly")
    settings.DATABASE_ROUTERS = [ReadsFromTheSouth()]
    assert Schedule.objects.get(name="nightly").alias() == "default"
    assert Schedule.objects.using(south).count() == 0
    again = Schedule.objects.get(pk=schedule.pk)
    again.pause()
    assert Schedule.objects.using("default").get().is_paused


def test_a_schedule_is_read_again_where_it_is(south, settings):
    schedule = scheduled("nightly")
    settings.DATABASE_ROUTERS = [ReadsFromTheSouth()]
    schedule.refresh_from_db()
    async_to_sync(schedule.arefresh_from_db)()
    later = Schedule.objects.only("name").get()
    assert (later.timing, later.alias(), schedule.alias()) == ("0 3 * * *", "default", "default")
    if django.VERSION >= (5, 1):
        with pytest.raises(Schedule.DoesNotExist):
            schedule.refresh_from_db(from_queryset=Schedule.objects.using(south))


class ReadsSchedulesFromTheSouth(ReadsFromTheSouth):
    def db_for_read(self, model, **_hints):
        return "south" if model in (Schedule, Tick) else None


def test_the_admin_shows_the_ticks_of_where_a_schedule_is(south, settings, browser):
    with virtual_clock(START):
        run_now(schedule := scheduled("nightly"), "anna")
        settings.DATABASE_ROUTERS = [ReadsSchedulesFromTheSouth()]
        url = f"/admin/dbqueue_schedules/schedule/{schedule.pk}/change/"
        assert "asked for by anna" in browser.get(url).content.decode()


def test_the_admin_leads_to_a_task_on_the_database_of_its_backend(south, settings, browser):
    backend = "django_dbqueue.tasks.backends.DatabaseBackend"
    settings.TASKS = {"default": {"BACKEND": backend, "OPTIONS": {"database": south}}}
    with virtual_clock(START):
        schedule = scheduled(target=calls.noop.module_path, kind="task", arguments={"args": [1]})
        run_now(schedule, "anna")
        page = browser.get(f"/admin/dbqueue_schedules/schedule/{schedule.pk}/change/")
    [job] = Task.objects.using(south)
    url = f"/admin/dbqueue_tasks/task/{job.pk}/change/?database=south"
    assert f'href="{url}"' in page.content.decode()
    assert browser.get(url).status_code == 200


def test_the_admin_refuses_a_table_whose_jobs_are_elsewhere(routed, browser):
    form = {"name": "nightly", "timing": "0 3 * * *", "kind": "table", "target": "queueapp.Note"}
    form |= {"arguments": json.dumps({"text": "hello"}), "missed": "latest", "overlap": "allow"}
    response = browser.post(ADD, form | {"catch_up_within": "86400"})
    assert response.status_code == 200
    [error] = response.context["adminform"].form.errors["target"]
    assert "on south, not on default" in error
    assert names() == {"default": [], "south": []}
