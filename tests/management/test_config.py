"""What a worker is told by a file, and how it shows where each value comes from."""

import json
import os
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from django_dbqueue.backoff import Listed
from django_dbqueue.management.commands.runworker import Command
from tests.kit.processes import running
from tests.queueapp.models import Note

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.any_database]


@pytest.fixture
def file(tmp_path):
    """Writes a file, and gives its path."""

    def write(text):
        path = tmp_path / "worker.toml"
        path.write_text(text, "utf-8")
        return str(path)

    return write


def given(*args):
    command = Command()
    parsed = vars(command.create_parser("manage.py", "runworker").parse_args(args))
    return command.configured(parsed)


def options(*args):
    return Command().options(given(*args))


def shown(*args):
    """By name, the value and where it comes from."""
    out = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("runworker", *args, "--show-config", "--json", stdout=out)
    assert ended.value.code == 0
    return {
        one["name"]: (one["value"], one["source"], one["where"])
        for one in json.loads(out.getvalue())
    }


EVERYTHING = """
tables = ["queueapp.Note", "queueapp.Fleeting:big"]
except = ["queueapp.Note:slow", "queueapp.Note:odd"]
queue = ["big=2", "*=1"]
database = "default"
name = "mail-1"
processes = 3
threads = 4
batch-size = 5
max_jobs = 6
max-time = 7.5
memory = 8
rest = 0.25
timeout = 9
tries = 10
backoff = [1, 2.5]
sleep = 0.125
shutdown-timeout = 11
stop-when-empty-for = 12
force = true
"""


def test_a_file_may_hold_the_options(file):
    chosen = options("--config", file(EVERYTHING))
    assert [str(one) for one in chosen.served] == ["queueapp.note", "queueapp.fleeting:big"]
    assert chosen.served[0].left_out == {"slow", "odd"}
    assert str(chosen.queue_order) == "big=2,*=1"
    numbers = chosen.processes, chosen.threads, chosen.batch_size, chosen.batch_grows
    assert numbers == (3, 4, 5, False)
    assert (chosen.max_jobs, chosen.max_time, chosen.max_memory) == (6, 7.5, 8)
    assert (chosen.rest, chosen.timeout, chosen.tries) == (0.25, 9, 10)
    assert chosen.backoff == Listed((1, 2.5))
    times = chosen.sleep, chosen.shutdown_timeout, chosen.stop_when_empty
    assert times == (0.125, 11, 12)
    assert chosen.force
    assert chosen.name == "mail-1"


def test_the_environment_may_name_the_file(file, monkeypatch):
    monkeypatch.setenv("DBQUEUE_CONFIG", file("threads = 6"))
    assert options().threads == 6


def test_option_environment_file_setting_and_default_win_in_this_order(file, settings, monkeypatch):
    path = file("threads = 4\ncoroutines = 4\nmax-jobs = 4")
    assert options().threads == 1
    settings.DBQUEUE = {"THREADS": 5}
    assert options().threads == 5
    assert options("--config", path).threads == 4
    monkeypatch.setenv("DBQUEUE_THREADS", "3")
    assert options("--config", path).threads == 3
    assert options("--config", path, "--threads=2").threads == 2
    assert options("--config", path, "--coroutines=0").coroutines == 0
    assert options("--config", path, "--max-jobs=3").max_jobs == 3


def test_each_value_is_shown_with_its_source(file, settings, monkeypatch):
    path = file("max-jobs = 4\nbackoff = [1, 2]\nqueue = 'a=2,b=1'")
    settings.DBQUEUE = {"PROCESSES": 5}
    monkeypatch.setenv("DBQUEUE_SLEEP", "0.25")
    found = shown("queueapp.Note", "--config", path, "--tries=3", "--coroutines=0")
    assert found["tables"] == (["queueapp.Note"], "option", "tables")
    assert found["tries"] == (3, "option", "--tries")
    assert found["coroutines"] == (0, "option", "--coroutines")
    assert found["sleep"] == (0.25, "environment", "DBQUEUE_SLEEP")
    assert found["max-jobs"] == (4, "file", path)
    assert found["backoff"] == ([1, 2], "file", path)
    assert found["queue"] == ("a=2,b=1", "file", path)
    assert found["processes"] == (5, "setting", "DBQUEUE['PROCESSES']")
    assert found["threads"] == (1, "default", "")
    assert found["name"] == (None, "default", "")
    assert found["WORKER_TIMEOUT"] == (10.0, "default", "")


def test_all_that_a_file_may_hold_is_shown():
    known = {
        action.option_strings[0].removeprefix("--")
        for action in Command().create_parser("", "runworker")._actions
        if action.option_strings and "--" in action.option_strings[0]
    }
    of_one_start = {"once", "reload", "skip-checks", "config", "show-config"}
    standard = {"version", "settings", "pythonpath", "traceback", "no-color", "force-color"}
    twins = {"stop-when-empty-for", "delay"}
    assert known - of_one_start - standard - twins - set(shown()) == set()


def test_people_get_columns(file):
    out = StringIO()
    path = file("threads = 4\njson = false")
    with pytest.raises(SystemExit):
        call_command("runworker", "--config", path, "--show-config", stdout=out)
    lines = [line.split() for line in out.getvalue().splitlines()]
    assert lines[0] == ["name", "value", "from", "where"]
    assert ["threads", "4", "file", path] in lines
    assert ["max-jobs", "-", "default"] in lines


def test_showing_touches_nothing(tmp_path, file):
    health = tmp_path / "health"
    Note.objects.create()
    found = shown("--config", file(f"health-file = '{health}'"))
    assert found["health-file"][0] == str(health)
    assert not health.exists()
    assert Note.objects.ready().count() == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("proceses = 3", "proceses is no option of runworker.*did you mean processes?"),
        ("[worker]\nthreads = 1", "worker is no option of runworker that a file may hold"),
        ("once = true", "once is no option of runworker that a file may hold"),
        ("worker_timeout = 3", r"worker_timeout is a setting: DBQUEUE\['WORKER_TIMEOUT'\]"),
        ("processes = 'x'", "--processes: must be a number, or a range such as 1-8, not 'x'"),
        ("processes = true", "processes must be text or a number, or a list, not True"),
        ("processes = 1.5", "--processes: must be a number, or a range such as 1-8, not '1.5'"),
        ("processes = {a = 1}", "processes must be text or a number, or a list"),
        ("force = 1", "force must be true or false, not 1"),
        ("queue = 'a=3,b'", "--queue: 'b' has no weight"),
        ("backoff = 1\ndelay = 2", "delay and backoff mean the same option"),
        ("database = 'nowhere'", "--database: 'nowhere' is no database alias"),
        ("threads = ", "cannot be read: Invalid value"),
    ],
)
def test_a_file_with_a_slip_is_refused_by_its_name_and_the_key(file, text, words):
    path = file(text)
    for more in ([], ["--show-config"]):
        with pytest.raises(CommandError, match=words) as refused:
            call_command("runworker", "--config", path, "--once", *more)
        assert str(refused.value).startswith(path)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(CommandError, match=r"cannot be read: .*No such file"):
        given("--config", str(tmp_path / "none.toml"))


def test_a_value_that_is_refused_is_not_shown():
    with pytest.raises(CommandError, match="--threads: must be a whole number of at least 1"):
        call_command("runworker", "--threads=1001", "--show-config")


@pytest.mark.process
def test_mail_by_cron_reads_no_file(database_url, file):
    path = file("nonsense = 1")
    with running(database_url, "send_queued_mail", DBQUEUE_CONFIG=path) as process:
        assert process.end() == 0


@pytest.mark.process
def test_a_command_line_says_which_file_is_wrong_and_exits_with_1(database_url, file):
    path = file("threads = 'x'")
    with running(database_url, "runworker", "--config", path) as process:
        assert process.end() == 1
        assert (
            f"{path}: argument --threads: must be a whole number of at least 1 and at most 1000, "
            "not 'x'" in process.stderr
        )


@pytest.mark.process
def test_a_file_is_utf_8_whatever_the_locale(database_url, file):
    path = file("queue = 'größe'")
    here = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    own = {"PYTHONIOENCODING": "utf-8", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    args = ("runworker", "--config", path, "--show-config")
    with running(database_url, *args, **here, **own) as process:
        assert process.end() == 0
        assert "größe" in process.stdout


@pytest.mark.process
def test_a_worker_works_by_its_file(database_url, file):
    path = file("tables = ['queueapp.Note']\nstop-when-empty = true\nqueue = 'high'\njson = true")
    Note.objects.create(queue="high")
    Note.objects.create()
    with running(database_url, "runworker", DBQUEUE_CONFIG=path) as process:
        assert process.end() == 0
        assert '"event": "worker.started"' in process.stderr
    assert [job.queue for job in Note.objects.ready()] == ["default"]
