"""What the commands are told reaches those who act on it, and nonsense reaches nobody."""

import logging
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.core.management.base import SystemCheckError
from django.db.models import QuerySet

from django_dbqueue.fields import DbNow
from django_dbqueue.management import status
from django_dbqueue.management.commands import runreaper
from django_dbqueue.management.commands._log import log_to_stderr
from django_dbqueue.management.commands.runworker import Command
from django_dbqueue.models import Worker
from django_dbqueue.states import Status
from django_dbqueue.worker import served
from django_dbqueue.worker.options import Options
from django_dbqueue.worker.served import UnknownTable, all_served, parse_served
from django_dbqueue.worker.standalone_reaper import StandaloneReaper
from tests.kit.inline_worker import logged
from tests.kit.jobs import claimed, fresh, overwrite
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")

# --- runworker ------------------------------------------------------------------------------------


def test_a_named_table_is_served_on_the_database_that_is_named():
    assert [one.using for one in parse_served(["queueapp.Note", "Note:slow"], "aside")] == [
        "aside",
        "aside",
    ]


def test_a_table_on_another_database_than_the_named_one_is_refused(monkeypatch):
    monkeypatch.setattr(served, "connections", ["default", "aside"])
    with pytest.raises(UnknownTable, match="is not on the database of --database, aside"):
        parse_served(["queueapp.Note@default"], "aside")
    [one] = parse_served(["Note@aside"], "aside", without=["Note@default:slow"])
    assert (one.using, one.left_out) == ("aside", frozenset())


@pytest.mark.parametrize("name", ["queueapp.Note", "Note", "queueapp.Note@default"])
def test_who_leaves_out_a_table_and_names_no_queue_is_told(name):
    with pytest.raises(UnknownTable, match="names no queue: leave out TABLE:QUEUE"):
        parse_served(["queueapp.Note"], without=[name])
    with pytest.raises(CommandError, match="names no queue: leave out TABLE:QUEUE"):
        call_command("runworker", "--once", "--except", name)


@pytest.mark.parametrize("name", ["processes", "threads"])
def test_a_slip_of_the_finger_forks_nothing(name):
    most: dict[str, Any] = {name: 1000}
    too_many: dict[str, Any] = {name: 1001}
    Options(served=all_served(), **most)
    with pytest.raises(ValueError, match=f"{name} must be at least 1 and at most 1000, not 1001"):
        Options(served=all_served(), **too_many)


@pytest.mark.parametrize("text", ["inf", "nan", "1e12", "-1"])
def test_a_time_that_no_database_can_add_is_refused(text):
    parser = Command().create_parser("manage.py", "runworker")
    with pytest.raises(CommandError, match="stop-when-empty-for: must be a number of seconds"):
        parser.parse_args(["--stop-when-empty-for", text])


def test_a_worker_starts_in_spite_of_the_checks_if_it_is_told_to(settings):
    settings.DBQUEUE = {"NO_SUCH_SETTING": 1}
    chosen = Options(served=parse_served(["queueapp.Note"]))
    with pytest.raises(SystemCheckError, match="NO_SUCH_SETTING"):
        Command().prepare(chosen, {"skip_checks": False, "verbosity": 0})
    Command().prepare(chosen, {"skip_checks": True, "verbosity": 0})


# --- dbqueue status ------------------------------------------------------------------------------


@pytest.mark.parametrize(("arguments", "using"), [(["--database=default"], "default"), ([], None)])
def test_status_is_of_the_database_that_it_is_told(monkeypatch, arguments, using):
    asked = []
    monkeypatch.setattr(status, "parse_served", lambda *which: asked.append(which) or [])
    call_command("dbqueue", "status", *arguments)
    assert asked[0] == ([], using)


# --- runreaper ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("arguments", "interval"), [(["--interval=7.5"], 7.5), ([], 1.0)])
def test_a_reaper_passes_at_the_interval_that_it_is_told(monkeypatch, arguments, interval):
    started = []
    note = lambda patrol: started.append(patrol.options.reap_interval)  # noqa: E731
    monkeypatch.setattr(StandaloneReaper, "run", note)
    call_command("runreaper", *arguments)
    assert started == [interval]


@pytest.mark.parametrize(
    ("arguments", "using"), [(["--database", "default"], "default"), ([], None)]
)
def test_a_reaper_looks_after_the_database_that_it_is_told(monkeypatch, arguments, using):
    asked = []
    monkeypatch.setattr(runreaper, "all_served", lambda *which: asked.append(which) or ())
    with pytest.raises(CommandError, match="No queue table is here"):
        call_command("runreaper", "--once", *arguments)
    assert asked == [(using,)]


@pytest.fixture
def silent():
    """A job whose worker has not beaten for a minute."""
    worker = Worker.objects.create(uuid="d" * 32, pid=1, host="slow", serves=["queueapp.note"])
    QuerySet(Worker).filter(pk=worker.pk).update(beat_at=DbNow(plus=-60))
    job = claimed(Note)
    overwrite(job, owner=f"{worker.uuid}.1")
    return job


@pytest.fixture
def patrol():
    return StandaloneReaper(Options(all_served(), beat_interval=0.2, worker_timeout=1))


@pytest.fixture
def meanwhile(patrol, monkeypatch):
    """What happens as soon as it waits, which it does for as long as the dead are given."""
    wait = patrol.stop.wait

    def set_to(act):
        def act_and_wait(seconds):
            assert seconds == patrol.options.worker_timeout
            act()
            wait(seconds)

        monkeypatch.setattr(patrol.stop, "wait", act_and_wait)

    return set_to


def test_a_reaper_with_once_waits_whether_a_silent_worker_beats_again(silent, patrol, meanwhile):
    meanwhile(lambda: QuerySet(Worker).update(beat_at=DbNow()))
    with logged() as log:
        patrol.once()
    assert "looking again in 1 s" in log
    assert fresh(silent).status == Status.CLAIMED


def test_a_reaper_with_once_ends_no_claim_whose_time_is_over_at_its_first_look(
    silent, patrol, meanwhile
):
    """The database may have been away for all; now its worker goes on."""
    overwrite(silent, retry_at=DbNow(plus=-60))

    def go_on():
        QuerySet(Worker).update(beat_at=DbNow())
        overwrite(silent, retry_at=DbNow(plus=60))

    meanwhile(go_on)
    patrol.once()
    assert fresh(silent).status == Status.CLAIMED


def test_a_reaper_with_once_gives_back_the_jobs_of_who_stays_silent(silent, patrol):
    patrol.once()
    assert fresh(silent).status == Status.READY


# --- the log --------------------------------------------------------------------------------------


def test_a_project_that_logs_in_its_own_way_gets_no_second_line():
    logger, own = logging.getLogger("django_dbqueue"), logging.NullHandler()
    logger.handlers[:] = [own]
    log_to_stderr(1)
    assert logger.handlers == [own]
    logger.handlers.clear()
    log_to_stderr(1)
    assert len(logger.handlers) == 1
