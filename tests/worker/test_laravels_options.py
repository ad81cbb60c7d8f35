"""Each option of Laravel's queue:work does here what docs/from-laravel.md says.

What each does in detail has tests of its own; here is one of each line of that table.
"""

import json
import time
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from django_dbqueue.backoff import Listed
from django_dbqueue.management.commands.runworker import Command
from django_dbqueue.models import Queue
from django_dbqueue.monitor.worker_list import list_workers
from django_dbqueue.monitor.worker_requests import request_stop
from django_dbqueue.testing import InlineWorker
from tests.kit.inline_worker import work_off
from tests.kit.jobs import fresh, table
from tests.kit.processes import QUICK, worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "from-laravel.md"
LARAVELS = {
    *("connection", "queue", "name", "once", "stop-when-empty", "stop-when-empty-for", "backoff"),
    *("delay", "max-jobs", "max-time", "force", "memory", "sleep", "rest", "timeout", "tries"),
    *("json", "daemon"),
}


def options(*args):
    command = Command()
    given = command.create_parser("manage.py", "runworker").parse_args(args)
    return command.options(vars(given))


@pytest.mark.any_database
def test_each_of_them_has_a_line_on_the_page():
    text = PAGE.read_text()
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    named = {name for line in lines for name in LARAVELS if f"`--{name}" in line.split(" | ")[0]}
    assert named | {"connection"} == LARAVELS
    assert "| `connection` |" in text


@pytest.mark.any_database
@pytest.mark.parametrize("option", sorted(LARAVELS - {"connection", "daemon"}))
def test_each_is_accepted_by_its_name_there(option):
    parser = Command().create_parser("manage.py", "runworker")
    known = [name for action in parser._actions for name in action.option_strings]
    assert f"--{option}" in known


@pytest.mark.any_database
def test_daemon_is_refused():
    parser = Command().create_parser("manage.py", "runworker")
    with pytest.raises(CommandError, match="--daemon"):
        parser.parse_args(["--daemon"])


def test_a_connection_is_a_database():
    assert {one.using for one in options("--database=default").served} == {"default"}
    with pytest.raises(CommandError, match="no database alias"):
        options("--database=redis")


def test_queue_is_a_strict_order():
    assert options("--queue=high,default").queue_order.patterns == ("high", "default")


def test_once_runs_one_job_and_ends_well_whether_there_was_one():
    Note.objects.enqueue_many({} for _ in range(2))
    for left in (1, 0, 0):
        call_command("runworker", "queueapp.Note", "--once")
        assert Note.objects.ready().count() == left


def test_stop_when_empty_stops_when_nothing_is_ready():
    Note.objects.create()
    Note.objects.enqueue(delay=60)
    work_off("queueapp.Note")
    assert (Note.objects.done().count(), Note.objects.delayed().count()) == (1, 1)
    assert options("--stop-when-empty").stop_when_empty == 0
    assert options("--stop-when-empty-for=2.5").stop_when_empty == 2.5


def test_backoff_and_delay_are_by_attempt_and_the_last_one_repeats():
    for option in ("backoff", "delay"):
        assert options(f"--{option}=10,60,300").backoff == Listed((10, 60, 300))
    job = Note.objects.create(action="fail")
    log = work_off("queueapp.Note", "--backoff=1200,7200")
    assert "retried in 20 min" in log
    assert fresh(job).get_status_display() == "delayed"


def test_max_jobs_and_max_time_are_limits():
    Note.objects.enqueue_many({} for _ in range(3))
    with InlineWorker("queueapp.Note", "--max-jobs=2") as one:
        one.run()
    assert Note.objects.done().count() == 2
    assert options("--max-time=60").max_time == 60


def test_force_works_in_spite_of_a_pause_of_everything():
    Queue.objects.pause_everything()
    Note.objects.create()
    with InlineWorker("queueapp.Note", "--force") as one:
        assert one.run() == 1


def test_memory_is_another_word_for_max_memory():
    assert options("--memory=128").max_memory == options("--max-memory=128").max_memory == 128


def test_sleep_may_be_a_fraction():
    assert options("--sleep=0.25").sleep == 0.25


def test_timeout_is_the_time_to_run_of_jobs_that_have_none_of_their_own():
    chosen = options("queueapp.Note", "--timeout=7")
    assert chosen.table(Note, "default").policy.time_to_run == 7
    assert options("queueapp.Note").table(Note, "default").policy.time_to_run == 60
    assert table().policy.time_to_run == 60


@pytest.mark.parametrize("seconds", ["0", "-1", "315360001", "x"])
def test_a_timeout_that_would_end_nothing_is_refused(seconds):
    with pytest.raises(CommandError, match="timeout"):
        options(f"--timeout={seconds}")


def test_tries_are_the_attempts_allowed():
    job = Note.objects.create(action="fail")
    work_off("queueapp.Note", "--tries=1")
    assert fresh(job).get_status_display() == "buried"


@pytest.mark.parametrize("tries", ["0", "-1"])
def test_no_job_is_tried_for_ever(tries):
    with pytest.raises(CommandError, match="tries"):
        options(f"--tries={tries}")


def test_a_line_of_json_has_the_same_fields_by_the_names_of_here():
    Note.objects.create(action="fail", queue="q")
    log = work_off("queueapp.Note")
    [line] = log.told("job.failed")
    assert line["level"] == "warning"
    assert line["queue"] == "q"
    assert line["table"] == "queueapp.note"
    assert line["attempt"] == 1
    assert "does not work" in line["message"]
    assert {"time", "id", "event", "seconds", "owner"} <= set(line)


# --- the name -------------------------------------------------------------------------------------


def test_a_name_is_in_the_row_and_the_lists_and_a_worker_is_asked_by_it():
    with InlineWorker("queueapp.Note", "--name=mail-1") as one:
        one.run()
        [member] = list_workers("default")
        assert member.given_name == "mail-1"
        assert member.name.startswith("mail-1 on ")
        [asked] = request_stop("mail-1")
        assert asked.uuid == one.uuid


@pytest.mark.any_database
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("x" * 101, "name has 101 characters; the limit is 100"),
        ("a\x1bb", "name must not hold control characters"),
        ("a\u202eb", "name must not hold control characters"),
    ],
)
def test_a_name_that_a_terminal_could_not_show_is_refused(name, words):
    with pytest.raises(CommandError, match=words):
        options(f"--name={name}")


def test_a_process_tells_its_name_in_its_row_and_its_log(database_url):
    with worker(database_url, "queueapp.Note", "--name=mail-1", "--json", **QUICK) as process:
        [member] = wait_until(lambda: list_workers("default"))
        assert member.given_name == "mail-1"
        process.popen.terminate()
        assert process.end() == 0
        lines = [json.loads(line) for line in process.stderr.splitlines() if line[:1] == "{"]
    [started] = [line for line in lines if line.get("event") == "worker.started"]
    assert started["worker_name"] == "mail-1"
    assert started["message"].startswith(f"worker mail-1 ({started['worker']}) starts")


# --- the rest -------------------------------------------------------------------------------------


def test_a_thread_rests_after_each_job_and_holds_up_no_stop(database_url):
    Note.objects.enqueue_many({} for _ in range(3))
    arguments = ("queueapp.Note", "--rest=3600", "--threads=2")
    with worker(database_url, *arguments, **QUICK) as process:
        wait_until(lambda: Note.objects.done().count() == 2)
        time.sleep(0.5)
        assert Note.objects.done().count() == 2
        process.popen.terminate()
        assert process.end() == 0
    [left] = Note.objects.ready()
    assert left.attempts == 0


def test_a_short_rest_lets_all_jobs_run(database_url):
    Note.objects.enqueue_many({} for _ in range(5))
    with worker(database_url, "queueapp.Note", "--rest=0.01", "--stop-when-empty") as process:
        assert process.end() == 0
    assert Note.objects.done().count() == 5


def test_coroutines_do_not_rest():
    with pytest.raises(CommandError, match="rest is for threads"):
        options("--rest=1", "--coroutines=5")


def test_a_job_over_the_timeout_is_stopped_and_tried_again(database_url):
    job = Note.objects.create(seconds=60)
    own = Note.objects.create(seconds=2.5, time_to_run=60)
    arguments = ("queueapp.Note", "--timeout=1", "--tries=1", "--threads=2", "--stop-when-empty")
    with worker(database_url, *arguments, **QUICK) as process:
        assert process.end(60) == 0
    assert fresh(job).get_status_display() == "buried"
    assert "TimeToRunExceeded" in str(fresh(job).errors)
    assert fresh(own).get_status_display() == "done"
