"""What an operator is shown does nothing to the terminal, and an odd option is refused."""

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from django_dbqueue import conf
from django_dbqueue.models import Queue
from tests.kit.broken_rows import edit
from tests.kit.command_line import refused
from tests.kit.jobs import fresh
from tests.kit.overview import a_worker
from tests.kit.processes import running
from tests.queueapp.models import Note

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.any_database]

ESCAPE, OVERRIDE = "\x1b[2Jcleared", "\u202egnorw"


def printed(*args):
    out = StringIO()
    call_command(*args, stdout=out)
    return out.getvalue()


def is_harmless(text):
    return text.isascii() and text.replace("\n", "").isprintable()


def odd_rows():
    job = Note.objects.create()
    edit(job, f"queue = '{ESCAPE}{OVERRIDE}'")
    Queue.objects.pause("queueapp_note", "default", None, ESCAPE + OVERRIDE)
    a_worker(host="alive" + ESCAPE)
    gone = a_worker(host="gone", stop_reason=ESCAPE + OVERRIDE)
    gone.stopped_at = gone.started_at
    gone.save()
    return fresh(job)


@pytest.mark.parametrize("verb", ["status", "workers", "check", "explain"])
def test_what_a_hand_or_a_job_has_written_does_nothing_to_the_terminal(verb):
    job = odd_rows()
    more = ["queueapp.Note", str(job.pk)] if verb == "explain" else []
    if verb == "check":
        out = StringIO()
        with pytest.raises(CommandError):
            call_command("dbqueue", verb, stdout=out)
        text = out.getvalue()
    else:
        text = printed("dbqueue", verb, *more)
    assert is_harmless(text)
    assert "\\x1b[2Jcleared" in text


def test_a_name_that_means_no_worker_is_refused_in_harmless_words():
    odd_rows()
    with pytest.raises(CommandError) as refused:
        call_command("dbqueue", "workers", "--stop", ESCAPE)
    assert is_harmless(str(refused.value))


def test_programs_get_the_names_as_they_are():
    odd_rows()
    queues = [one["queue"] for one in json.loads(printed("dbqueue", "status", "--json"))["queues"]]
    assert ESCAPE + OVERRIDE in queues


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["runworker", "queueapp.Note:"], "queue must be a non-empty string"),
        (["runworker", "queueapp.Note: a"], "must not begin or end with a space"),
        (["runworker", "queueapp.Note:\x1b"], "control characters"),
        (["runworker", "queueapp.Note:" + "x" * 201], "the limit is 200"),
        (["runworker", "--except", "queueapp.Note:"], "queue must be a non-empty string"),
        (
            ["runreaper", "--once", "--interval", "0"],
            "must be a number of at least 0.01",
        ),
    ],
)
def test_an_odd_argument_is_refused(args, words):
    with pytest.raises(CommandError, match=words):
        call_command(*args)


def test_a_reaper_that_would_spin_is_refused(settings):
    settings.DBQUEUE = {"REAP_INTERVAL": 0.0}
    with pytest.raises(CommandError, match=r"\['REAP_INTERVAL'\] must be at least 0.01"):
        call_command("runworker", "--once")


def test_a_health_file_that_is_a_directory_is_refused(tmp_path):
    with pytest.raises(CommandError, match="is no file"):
        call_command("runworker", "--once", "--health-file", str(tmp_path))


@pytest.mark.parametrize(
    ("word", "meaning"), [("true", True), ("On", True), ("0", False), ("no", False), ("", False)]
)
def test_a_word_of_the_environment_is_true_or_false(word, meaning, monkeypatch):
    monkeypatch.setenv("DBQUEUE_NOTIFY", word)
    assert conf.conf["NOTIFY"] is meaning


def test_a_word_that_is_neither_is_refused_by_name(monkeypatch):
    monkeypatch.setenv("DBQUEUE_NOTIFY", "maybe")
    [problem] = conf.wrong_values()
    assert "DBQUEUE_NOTIFY must be true or false, not 'maybe'" in problem


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("explain queueapp.nope 1", "queueapp.nope"),
        ("explain queueapp.note 7", "7"),
        ("workers --stop nosuch", "nosuch"),
        ("adopt queueapp.nope", "nope"),
        ("explain queueapp.note:slow 7", "'queueapp.note:slow' names a queue"),
        ("demo-data queueapp.note:slow", "names a queue: name the table alone, queueapp.note"),
        ("demo-data note@default:slow --remove", "name the table alone, note@default"),
    ],
)
def test_a_name_that_is_none_is_refused_by_exit_code_2(words, why):
    assert why in refused(*words.split())


@pytest.mark.process
@pytest.mark.parametrize("verb", [["status", "--watch", "0.2"], ["cancel", "--all", "--yes"]])
def test_who_has_read_enough_gets_no_traceback(database_url, verb):
    Note.objects.create()
    piped = ["bash", "-o", "pipefail", "-c", '"$0" "$@" | true']
    with running(database_url, "dbqueue", *verb, within=piped) as process:
        assert process.end() == 0
        assert process.stderr == ""
    assert Note.objects.exists() is (verb[0] == "status")
