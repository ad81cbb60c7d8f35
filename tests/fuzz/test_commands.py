"""Command lines and settings of nonsense end with a clear error, never with a traceback."""

import io
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from unittest.mock import patch

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import load_command_class
from django.test import override_settings

from django_dbqueue.checks import tables
from django_dbqueue.conf import Section, conf, wrong_values
from django_dbqueue.management.operating import OPERATING
from django_dbqueue.worker.signalling import own_handlers
from django_dbqueue.worker.standalone_reaper import StandaloneReaper
from django_dbqueue.worker.supervisor import Supervisor
from tests.fuzz.rows import any_text
from tests.fuzz.tally import Tally
from tests.fuzz.values import NASTY
from tests.kit.processes import running

pytestmark = [pytest.mark.any_database, pytest.mark.usefixtures("db_rows")]

WORDS = [
    *(
        "",
        "0",
        "1",
        "2",
        "-1",
        "1.5",
        "nan",
        "inf",
        "-inf",
        "1e300",
        "9" * 30,
        "9" * 5000,
        "x",
        " ",
    ),
    *(
        "٣",
        "1,2",
        "1,",
        ",",
        "10,60,x",
        "0x10",
        "1_000",
        "true",
        "--",
        "-",
        "\udcff",
        "a\nb",
        "\x1b[",
    ),
    *("queueapp.Note", "queueapp.note:default", "Note", "Note:", ":", "shop.Nothing", "/nowhere/x"),
    *(
        "default",
        "other",
        "%s",
        "{}",
        "'",
        "é" * 300,
        "/",
        ".",
        "/dev/full",
        "1000000",
        "2147483648",
    ),
]
FLAGS = {
    "runworker": [
        *("--processes", "--threads", "--batch-size", "--once", "--stop-when-empty", "--max-jobs"),
        *("--stop-when-empty-for", "--max-time", "--max-memory", "--json", "--tries", "--backoff"),
        *("--delay", "--sleep", "--shutdown-timeout", "--skip-checks", "--database", "--reload"),
        *("--health-file", "--probe-port", "--probe-host", "--verbosity", "--nonsense"),
    ],
    "runreaper": ["--once", "--interval", "--json", "--database", "--verbosity", "--nonsense"],
    "dbqueue": [
        *("status", "workers", "adopt", "--json", "--database", "--stop", "--name", "--dry-run"),
        *("nonsense", "--verbosity", "--queue", "--state", "--older-than", "--newer-than"),
        *("--error", "--limit", "--id", "--all", "--yes", "--include-claimed"),
    ],
}
VERBS = ["status", "workers", "adopt", *OPERATING]
COMMANDS = {name: load_command_class("django_dbqueue", name) for name in FLAGS}


def any_line(random):
    name = random.choice(sorted(FLAGS))
    line = []
    if name == "dbqueue" and random.random() < 0.9:
        line.append(random.choice(VERBS))
    for _ in range(random.choice([0, 1, 1, 2, 3, 6])):
        line.append(random.choice(FLAGS[name]))
        if random.random() < 0.7:
            word = random.choice(WORDS) if random.random() < 0.8 else any_text(random)
            line.append(word)
    # A migration that could be written would be.
    extra = ["--dry-run"] if line[:1] == ["adopt"] else []
    # The reloader replaces the process.
    return name, [word for word in line if word != "--reload"] + extra


def outcome(name, line):
    """The exit code and what was said, as from a shell; anything else is raised."""
    output, errors = io.StringIO(), io.StringIO()
    command = COMMANDS[name].__class__(stdout=output, stderr=errors)
    with redirect_stderr(errors), redirect_stdout(output), own_handlers():
        try:
            command.run_from_argv(["manage.py", name, *line])
        except SystemExit as leaving:
            return leaving.code or 0, errors.getvalue()
    return 0, errors.getvalue()


@pytest.fixture
def started(monkeypatch, tmp_path):
    """Up to the first process that a command would start, or wait in."""
    begun = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Supervisor, "run", lambda self: begun.append(self) or 0)
    monkeypatch.setattr(StandaloneReaper, "run", lambda self: begun.append(self) or 0)
    return begun


@pytest.mark.any_database
def test_a_command_line_of_nonsense_is_refused_in_plain_words(full, started):
    tally = Tally("command lines")
    least = 10_000 if full else 200
    while tally.tried < least:
        name, line = any_line(tally.random)
        tally.tried += 1
        try:
            code, said = outcome(name, line)
            assert code in {0, 1, 2}, code
            assert code == 0 or said.strip(), "it says nothing"
            assert "Traceback" not in said
            tally.refused += code != 0
        except Exception as error:
            tally.crashed(f"{name} {line!r:.200}", error)
    assert started
    tally.end(least)


LINES = [
    ["runworker", "--processes", "99999999", "--stop-when-empty"],
    ["runworker", "--sleep", "300000000", "--stop-when-empty"],
    ["runworker", "--shutdown-timeout", "300000000", "--max-time", "300000000", "--once"],
    ["runworker", "--database", "nowhere"],
    ["runreaper", "--once", "--interval", "300000000"],
    ["runreaper", "--database", "\udcff"],
    ["dbqueue", "workers", "--stop", "\udcff"],
    ["dbqueue", "adopt", "\x1b[2J"],
]


@pytest.mark.any_database
@pytest.mark.parametrize("environment", [{}, {"DBQUEUE_SLEEP": "nan"}, {"DBQUEUE_PROCESSES": ""}])
def test_a_real_command_of_nonsense_ends_without_a_traceback(database_url, environment, full):
    for line in LINES if full else LINES[:1]:
        with running(database_url, *line, **environment) as process:
            assert process.end(90) in {0, 1, 2}, line
        assert "Traceback" not in process.stderr, process.stderr


TEXTS = [
    "",
    "x",
    "-1",
    "0",
    "1",
    "1.5",
    "nan",
    "inf",
    "-inf",
    "1e300",
    "9" * 5000,
    "٣",
    "true",
    " ",
]
READ_BY_OTHERS = {
    "NOTIFY",
    "REAP_INTERVAL",
    "LATE_AFTER",
    "RUN_WITH_SERVER",
    "METRICS_TOKEN",
    "OPERATOR",
    "TRACING",
}
NAMES = [(section, name) for section in Section.all for name in section]


def settings_judged(tally, name, value):
    """The value is right, or every reader says so in the same words, and so do the checks."""
    tally.tried += 1
    try:
        found = [error.id for error in tables.check_settings()]
        code, said = outcome("runworker", ["--skip-checks"])
        wrong = wrong_values()
        assert ("dbqueue.E015" in found) == bool(wrong)
        if wrong:
            tally.refused += 1
        if wrong and name in conf.defaults and name not in READ_BY_OTHERS:
            assert code == 1, said
            assert name in said
    except Exception as error:
        tally.crashed(f"{name} = {value!r:.80}", error)


@pytest.mark.any_database
def test_a_setting_of_nonsense_is_named(full, started):
    tally = Tally("settings")
    values = [value for value in NASTY if not callable(value)]
    for section, name in NAMES:
        for value in values if full else tally.random.sample(values, 2):
            with override_settings(DBQUEUE={section.prefix + name: value}):
                settings_judged(tally, section.prefix + name, value)
        for text in TEXTS if full else tally.random.sample(TEXTS, 2):
            with patch.dict(os.environ, {f"DBQUEUE_{section.prefix}{name}": text}):
                settings_judged(tally, section.prefix + name, text)
    tally.end(50)


@pytest.mark.any_database
@pytest.mark.parametrize("value", [5, None, "x", [1], {1: 2}, {None: 1}, {"SLEEP": None}])
def test_settings_that_are_no_dict_are_named(value, started):
    with override_settings(DBQUEUE=value):
        errors = tables.check_settings()
        assert [error.id for error in errors] in (["dbqueue.E008"], ["dbqueue.E015"])
        if not isinstance(value, dict):
            with pytest.raises(ImproperlyConfigured, match="DBQUEUE must be a dict"):
                conf["SLEEP"]
            assert outcome("runworker", ["--skip-checks"])[0] == 1
    assert sys.exc_info() == (None, None, None)
