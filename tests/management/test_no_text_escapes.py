"""Every text of the commands goes through gettext: in a language that puts each of them into
brackets, nothing but data stands outside."""

from io import StringIO
from typing import Any

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.core.management.base import BaseCommand
from django.db import connection

from django_dbqueue.beanstalk.management.commands import runbeanstalkd
from django_dbqueue.fields import DbNow
from django_dbqueue.mail.management.commands import (
    forget_address,
    index_recipients,
    send_queued_mail,
)
from django_dbqueue.management.commands import dbqueue, runreaper, runworker
from django_dbqueue.management.failures import FAILURES
from django_dbqueue.management.top_model import Top
from django_dbqueue.models import Queue
from django_dbqueue.models.columns import JobColumns
from django_dbqueue.worker import served
from django_dbqueue.worker.served import all_served
from tests.kit.broken_rows import SETS
from tests.kit.failures import count, failed, kind, retrying
from tests.kit.jobs import claimed, done
from tests.kit.overview import a_worker
from tests.kit.pseudo import pseudo_language, stray_words
from tests.queueapp.models import Note

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.any_database]

LABELS = {m._meta.label for m in apps.get_models() if issubclass(m, JobColumns)}
# Names: of tables, queues, databases, hosts, classes and settings; what is typed; zones; bytes.
DATA = {
    *(LABELS | {label.lower() for label in LABELS}),
    *(
        "default",
        "aside",
        "id",
        "web1",
        "web2",
        "OSError",
        "ValueError",
        "UTC",
        "demo",
        "x",
        "mail",
    ),
    *(
        "nonsense",
        "nobody",
        "OPERATOR",
        "no file #",
        "timing",
        kind().fingerprint,
        "no file 7",
        "no paper",
        "NAME",
        "Note",
    ),
    *("someone@example.org", "queueapp", "beanstalk", "by hand, in dbqueue top"),
}


@pytest.fixture
def _scene(db_rows):
    Note.objects.create(queue="56")
    Note.objects.create(queue="57", retry_at=DbNow(plus=600))
    claimed()
    failed()
    retrying()
    count(3)
    done()
    a_worker()
    a_worker(host="web2", beat_at=DbNow(plus=-600))
    Queue.objects.pause(Note._meta.db_table, "57", 60, "12 34")


def shown(command: str, *args: Any) -> str:
    """All that it prints, on either stream, and why it ends."""
    out, why = StringIO(), ""
    with pseudo_language():
        try:
            call_command(command, *map(str, args), stdout=out, stderr=out)
        except (CommandError, SystemExit) as error:
            why = str(error)
    return f"{out.getvalue()}\n{why}"


def strays(text: str) -> list[str]:
    # What argparse says itself.
    return sorted(
        one for one in stray_words(text, DATA) if not one.startswith(("Error: argument", "--"))
    )


VERBS = {
    *("status", "failures", "failed", "monitor", "workers", "check", "monitor --max 1"),
    *("monitor --max-age 0", "explain queueapp.note 1", "retry --all --dry-run", "kick --all"),
    *("move queueapp.note --to 58 --yes", "prioritize queueapp.note --to 5 --yes", "restart"),
    *("reschedule queueapp.note --in 10m --yes", "bury queueapp.note --yes --limit 1"),
    *("release queueapp.note --yes", "cancel queueapp.note --yes", "clear queueapp.note --yes"),
    *("prune --failed 1h --yes", "prune --done 1h --failed 1h --dry-run", "pause queueapp.note"),
    *("pause --all --for 10m", "pause queueapp.note:56 --reason 12", "resume --all"),
    *("resume queueapp.note:57", "schedule list", "demo-data queueapp.note --jobs 20"),
    *("demo-data --remove queueapp.note", "workers --stop web1", "workers --drain web1"),
    *("workers --resume web1", "retry queueapp.note --failure 0"),
}
REFUSED = {
    *("workers --stop nobody", "status nonsense", "status queueapp.not", "explain nonsense 1"),
    *("explain queueapp.note x", "explain queueapp.note 99999", "check --rows 0", "check --rows x"),
    *("status --database nonsense", "retry", "retry --id 5", "retry queueapp.note --id x"),
    *("retry queueapp.note --id 5 --queue 56", "retry queueapp.note --id 1-99999999"),
    *("move queueapp.note --to 5*", "move queueapp.note --to 58", "cancel --all", "pause"),
    *("prioritize queueapp.note --to x", "retry --older-than x", "retry --limit 0", "prune"),
    *("retry --in 1 --time-to-run 0.5 --all", "reschedule --all --at x", "retry --error="),
    *("pause --all queueapp.note", "pause queueapp.note:56 --queue 57", "pause --all --for 0"),
    *("pause queueapp.note:5*", "prune --done 1h queueapp.note:56", "failures --since 48h"),
    *("retry --all --by nobody", "top", "demo-data --jobs 0", "adopt nonsense"),
    *("adopt queueapp.Note", "adopt queueapp.Nota", "schedule pause nonsense"),
    *("schedule add 1 x x", "schedule add 1 x x --arguments x", "import --from django-tasks-db"),
    *("import --from dj-queue", "status nonsense@default", "status queueapp.note@nonsense"),
}
OTHERS = {
    *("runworker --processes 0", "runworker --processes x", "runworker --threads 0"),
    *("runworker --sleep x", "runworker --max-jobs 0", "runworker --max-time x", "runworker x"),
    *("runworker --queue 5,5", "runworker --queue 5=1,6", "runworker --queue 5=x"),
    *("runworker --reload", "runworker --config /nonsense"),
    *(
        "runworker queueapp.note:8 --queue 9",
        "runworker --except queueapp.note",
        "runworker --health-file /",
        "runreaper --once",
    ),
    *("runreaper --interval 0", "runbeanstalkd --listen x", "runbeanstalkd --listen 0.0.0.0:0"),
    *("runbeanstalkd --max-job-size 0", "runbeanstalkd --socket-mode 9", "index_recipients"),
    *("runbeanstalkd --socket-mode 600", "runbeanstalkd --tls-key x", "send_queued_mail --dry-run"),
    *("runbeanstalkd --tls-client-ca x", "runbeanstalkd --secret-file x", "forget_address x"),
    *("runbeanstalkd --authentication-timeout 0", "forget_address 1@example.org --dry-run"),
    *("forget_address 1@example.org",),
}


@pytest.mark.usefixtures("_scene")
@pytest.mark.parametrize("line", sorted(VERBS))
def test_nothing_escapes_of_what_a_verb_prints(line):
    assert strays(shown("dbqueue", *line.split())) == []


@pytest.mark.parametrize("line", sorted(VERBS))
def test_nothing_escapes_where_there_is_nothing_to_show(line):
    assert strays(shown("dbqueue", *line.split())) == []


@pytest.mark.parametrize("line", sorted(REFUSED))
def test_nothing_escapes_of_why_a_verb_is_refused(line):
    assert strays(shown("dbqueue", *line.split())) == []


@pytest.mark.parametrize("line", sorted(OTHERS))
def test_nothing_escapes_of_the_other_commands(line):
    assert strays(shown(*line.split())) == []


def test_nothing_escapes_of_rows_that_should_not_be():
    for clause in SETS.values():
        job = Note.objects.create(queue="56")
        with connection.cursor() as cursor:
            cursor.execute(f"UPDATE queueapp_note SET {clause} WHERE id = %s", [job.pk])
    text = shown("dbqueue", "check", "--rows", 1)
    assert text.count("\n    ") >= 12  # pieces of advice
    assert strays(text) == []


def test_nothing_escapes_of_the_head_of_a_configuration():
    assert strays(shown("runworker", "--show-config").splitlines()[0]) == []


@pytest.mark.usefixtures("_scene")
def test_nothing_escapes_of_what_top_asks_and_says():
    said = []
    with pseudo_language():
        top = Top(all_served("default"), None)
        top.look()
        for line in top.lines:
            top.selected = line.key
            for key in ("p", "r", "s", "?"):
                top.press(key)
                said.append(top.question.text if top.question else top.said)
                if top.question:
                    top.press("y")
                    said.append(top.said)
    assert len(said) > 10
    assert strays("\n".join(said)) == []


@pytest.mark.parametrize("line", ["status queueapp.note", "status nonsense"])
@pytest.mark.parametrize("tables", [[], [Note, Note]])
def test_nothing_escapes_of_why_a_name_means_no_table_or_several(monkeypatch, line, tables):
    monkeypatch.setattr(served, "queue_tables", lambda: tables)
    text = shown("dbqueue", *line.split())
    assert "installed are" in text
    assert strays(text) == []


def test_nothing_escapes_of_why_a_table_has_to_be_named_alone():
    text = shown("dbqueue", "explain", "queueapp.note:mail", "1")
    assert "names a queue" in text
    assert strays(text) == []


def test_nothing_escapes_of_why_a_table_has_to_be_named_with_its_database(monkeypatch):
    monkeypatch.setattr(Note, "written_databases", lambda: ["default", "aside"])
    text = shown("dbqueue", "explain", "queueapp.note", "1")
    assert "is on several databases" in text
    assert strays(text) == []


COMMANDS = (
    *(dbqueue, runworker, runreaper, runbeanstalkd),
    *(send_queued_mail, index_recipients, forget_address),
)
# What is typed, and no word of a language.
TYPED = {"10m, 2h, 7d", "someone@example.org"}


@pytest.mark.parametrize("module", COMMANDS, ids=lambda one: one.__name__.rpartition(".")[2])
def test_nothing_escapes_of_the_help_of_a_command_and_its_verbs(module):
    with pseudo_language():
        parser = module.Command().create_parser("manage.py", "of ours")
    texts = list(helps(parser, {"torture"}))
    assert len(texts) > 1 or module is index_recipients
    assert strays("\n".join(one for one in texts if one not in TYPED)) == []


def helps(parser: Any, left_out: set[str]) -> Any:
    """Of it and its verbs, without Django's own options and argparse's."""
    own = {one.dest for one in BaseCommand().create_parser("", "")._actions}
    yield parser.description or ""
    for group in parser._action_groups[2:]:
        yield group.title or ""
    for action in parser._actions:
        if action.dest in own:
            continue
        yield action.help or ""
        for one in getattr(action, "_choices_actions", ()):
            yield one.help or ""
        verbs = action.choices if isinstance(action.choices, dict) else {}
        for name, verb in verbs.items():
            if name not in left_out:
                yield from helps(verb, left_out)


def test_a_help_that_is_made_once_is_in_the_language_of_who_reads_it():
    with pseudo_language():
        assert str(FAILURES.help).startswith("⟦")
