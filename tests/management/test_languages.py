"""What a command says to people is in their language; what it tells programs, or stores, is not."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.utils import translation

from django_dbqueue.fields import DbNow
from django_dbqueue.models import Queue
from tests.kit.command_line import dbqueue, fails, refused, status
from tests.kit.failures import count, failed
from tests.kit.jobs import claimed
from tests.kit.overview import a_worker
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")
ROOT = Path(__file__).resolve().parents[2]


def plain(text: str) -> str:
    """Without what is another number in each run."""
    return re.sub(r"[0-9a-f]{32}|\d+(?:\.\d+)?", "#", text)


def in_german(*args: str) -> str:
    with translation.override("de"):
        return status(*args[1:]) if args[0] == "status" else dbqueue(*args)


@pytest.fixture
def _scene(db_rows):
    Note.objects.create(queue="news")
    claimed()
    failed()
    count(2)
    a_worker()
    a_worker(host="web2", beat_at=DbNow(plus=-600))
    Queue.objects.pause(Note._meta.db_table, "news", 600, "weekend")


READING = ["status", "failures", "failed", "workers", "monitor", "retry --all --dry-run"]


@pytest.mark.usefixtures("_scene")
@pytest.mark.parametrize("line", READING)
def test_what_is_for_programs_is_english_in_every_language(line):
    args = [*line.split(), "--json"]
    with translation.override("en"):
        english = status(*args[1:]) if line == "status" else dbqueue(*args)
    assert len(english) > 100
    assert plain(in_german(*args)) == plain(english)


def test_why_a_job_does_not_run_is_told_to_programs_in_english():
    job = Note.objects.create()
    assert "No living worker serves its queue." in in_german(
        "explain", "queueapp.note", str(job.pk), "--json"
    )


DOING = [
    "pause queueapp.note:news --reason weekend",
    "pause --all --for 10m",
    "resume queueapp.note:news",
    "retry queueapp.note --limit 1",
    "move queueapp.note --to other --yes",
    "cancel queueapp.note --yes",
]


@pytest.fixture
def anna():
    user = User.objects.create_user("anna")
    yield user
    user.delete()


@pytest.mark.parametrize("line", DOING)
def test_what_is_stored_of_a_command_is_english_in_every_language(line, anna):
    written = {}
    for language in ("en", "de"):
        failed()
        with translation.override(language):
            dbqueue(*line.split(), "--by", "anna")
        entry = LogEntry.objects.get()
        written[language] = plain(f"{entry.object_repr} | {entry.change_message}")
        LogEntry.objects.all().delete()
        Note.objects.all().delete()
        Queue.objects.all().delete()
    assert written["en"] == written["de"]


def test_a_pause_is_told_in_german():
    said = in_german("pause", "queueapp.note:news", "--reason", "weekend")
    assert said == "queueapp.note:news angehalten bis jemand sie fortsetzt: weekend\n"
    said = in_german("resume", "queueapp.note:news")
    assert said == "queueapp.note:news fortgesetzt\n"


def test_plural_forms_are_those_of_the_language():
    failed()
    assert in_german("retry", "--all", "--dry-run") == "queueapp.note: 1 würde geändert\n"
    failed()
    assert in_german("retry", "--all", "--dry-run") == "queueapp.note: 2 würden geändert\n"


def test_what_is_refused_is_told_in_german():
    with translation.override("de"):
        said = refused("status", "nonsense")
        assert said.startswith("'nonsense' ist keine Warteschlangentabelle; installiert sind: ")
        assert fails(2, "workers", "--stop", "nobody")[1] == (
            "'nobody' meint keinen lebenden Worker. Lebend: keiner"
        )


def test_a_process_speaks_the_language_of_the_project(tmp_path):
    settings = tmp_path / "of_a_language.py"
    settings.write_text("from testproject.settings import *\nLANGUAGE_CODE = 'de'\n")
    own = {"DJANGO_SETTINGS_MODULE": "of_a_language", "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    done = subprocess.run(
        [sys.executable, "manage.py", "dbqueue", "pause", "--help"],
        cwd=ROOT,
        env={**os.environ, **own, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Warteschlangen aller Warteschlangentabellen" in done.stdout
