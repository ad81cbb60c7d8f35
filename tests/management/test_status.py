"""``dbqueue status``: a verdict, what is wrong, exit codes, colours, and ``--watch``."""

import json
import signal
import sys
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.db.models import QuerySet
from django.utils import timezone
from rich.console import Console

from django_dbqueue.fields import DbNow
from django_dbqueue.management import colours
from django_dbqueue.management import status as management_status
from django_dbqueue.management.colours import is_coloured
from django_dbqueue.management.status import show
from django_dbqueue.management.top_model import Top
from django_dbqueue.management.top_screen import screen
from django_dbqueue.metrics import numbers
from django_dbqueue.models import Worker
from django_dbqueue.states import Status
from django_dbqueue.worker.served import parse_served
from tests.kit.command_line import as_json, dbqueue, fails, status
from tests.kit.failures import NO_PAPER, count, failed
from tests.kit.jobs import done, overwrite
from tests.kit.lost_connection import lose_connection
from tests.kit.overview import a_worker
from tests.kit.terminal import at_terminal, lose_ctrl_c
from tests.queueapp.models import Kept, Note

pytestmark = pytest.mark.usefixtures("db_rows")

RED, GREEN = "\x1b[1;31m", "\x1b[1;32m"


def test_where_all_is_well_one_sentence_says_so():
    said = dbqueue("status")
    assert said.startswith("All is well: nothing waits, 0 done in the last hour.\n")
    report = as_json("status")
    assert (report["version"], report["urgent"], report["alerts"]) == (1, False, [])
    assert report["verdict"] == "All is well: nothing waits, 0 done in the last hour."
    assert report["level"] == "ok"


def test_jobs_that_are_done_and_that_no_worker_has_counted_yet_are_not_denied():
    done()
    assert "no job waits, runs or has failed in any queue table" in dbqueue("status")


def test_a_queue_that_may_have_jobs_which_nobody_has_counted_yet_is_listed(monkeypatch):
    """As the page lists it: where very many are buried, not all are counted at each look."""
    monkeypatch.setattr(numbers, "FEW", 3)
    kind = {"status": Status.BURIED, "failed_at": DbNow(), "finished_at": DbNow()}
    rows: Any = QuerySet(Note)
    rows.bulk_create([Note(queue=name, **kind) for name in ["a"] * 9 + ["default"]])
    listed = {one["queue"]: one["at_least"] for one in json.loads(status("--json"))["queues"]}
    assert "buried" in listed["default"]


def test_an_urgent_alarm_ends_it_with_1_and_is_told_with_what_to_do():
    Note.objects.create()
    said, why = fails(1, "status")
    first, advice = said.split("\n")[:2]
    assert first == "Act now: queueapp.note, queue default: no living worker serves it."
    assert advice.startswith("    Its jobs wait. Start a worker")
    assert why == "queueapp.note, queue default: no living worker serves it."
    printed, _ = fails(1, "status", "--json")
    assert '"urgent": true' in printed


def test_of_several_problems_the_first_is_the_verdict_and_the_others_follow():
    Note.objects.create()
    Kept.objects.create()
    said, why = fails(1, "status")
    first, _, second, _ = said.split("\n")[:4]
    assert first.endswith("no living worker serves it. And 1 more problem.")
    assert second.startswith("! queueapp.")
    assert second[2:] not in first
    assert len(why.split("\n")) == 2


def test_what_a_person_has_written_makes_no_line_of_its_own():
    Note.objects.create()
    Note.objects.pause("default", reason="paper\n! Act now: call 555")
    lines = dbqueue("status").split("\n")
    [line] = [one for one in lines if "call 555" in one]
    assert line.startswith("- ")
    assert "paper\\n! Act now" in line


def test_failed_jobs_are_worth_a_look_and_end_it_with_0():
    failed(NO_PAPER)
    count(1, NO_PAPER)
    said = dbqueue("status")
    first, advice = said.split("\n")[:2]
    assert first == (
        "Worth a look: 1 attempt failed in the last hour, and 1 such job waits for a person: "
        "ValueError."
    )
    assert advice.startswith("    Read the errors")
    assert as_json("status")["level"] == "look"
    assert dbqueue("status", "queueapp.note", "queueapp.note:default").startswith(first)


def test_a_planned_pause_is_told_and_needs_nobody():
    Note.objects.create()
    Note.objects.pause("default", reason="paper")
    said = dbqueue("status")
    assert said.startswith("All is well: nothing waits, 0 done in the last hour.\n- queueapp.note")
    assert "paper" in said


def test_only_the_tables_and_queues_that_are_named_are_looked_at():
    Note.objects.create(queue="slow")
    Kept.objects.pause("default")
    assert "queueapp.note" not in dbqueue("status", "queueapp.kept")
    assert "slow" not in dbqueue("status", "queueapp.note:default")
    fails(1, "status", "queueapp.note:slow")


def test_ages_are_told_as_people_read_them():
    job = Note.objects.create()
    overwrite(job, created_at=timezone.now() - timedelta(hours=2, minutes=5))
    said, _ = fails(1, "status")
    assert "2 h 5 min" in said
    assert " s " not in said.partition("queue table")[2]


@pytest.mark.parametrize(
    ("options", "environment", "is_terminal", "expected"),
    [
        ({}, {}, True, True),
        ({}, {}, False, False),
        ({}, {"NO_COLOR": "1"}, True, False),
        ({}, {"NO_COLOR": ""}, True, True),
        ({}, {"TERM": "dumb"}, True, False),
        ({"no_color": True}, {}, True, False),
        ({"force_color": True}, {"NO_COLOR": "1"}, False, True),
        ({"force_color": True, "json": True}, {}, True, False),
    ],
)
@pytest.mark.any_database
def test_colours_are_for_people_who_want_some(
    options, environment, is_terminal, expected, monkeypatch
):
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal, raising=False)
    assert is_coloured(sys.stdout, options) == expected
    assert colours.painted("", "1") == ""


def test_at_a_terminal_it_has_colours_and_the_exit_code(database_url):
    Note.objects.create()
    with at_terminal(database_url, "dbqueue", "status") as terminal:
        assert terminal.end() == 1
        assert f"{RED}Act now: queueapp.note, queue default: no" in terminal.raw
    Note.objects.all().cancel()
    with at_terminal(database_url, "dbqueue", "status") as terminal:
        assert terminal.end() == 0
        assert f"{GREEN}All is well" in terminal.raw
    with at_terminal(database_url, "dbqueue", "status", NO_COLOR="1") as terminal:
        assert terminal.end() == 0
        assert "\x1b[" not in terminal.raw


def test_it_watches_until_it_is_interrupted(database_url):
    with at_terminal(database_url, "dbqueue", "status", "--watch", "0.2") as terminal:
        terminal.wait_for("All is well")
        Note.objects.create()
        terminal.wait_for("Act now")
        assert colours.CLEAR in terminal.raw
        assert "\x1b[3J" not in terminal.raw  # what has scrolled off stays
        terminal.popen.send_signal(signal.SIGINT)
        assert terminal.end() == 0
        assert "Traceback" not in terminal.text


def test_it_watches_again_in_a_process_in_which_it_was_interrupted(monkeypatch):
    shows = []

    def show_and_interrupt(options):
        shows.append(options["watch"])
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(management_status, "show", show_and_interrupt)
    for seconds in (0.2, 0.3):
        assert dbqueue("status", "--watch", seconds) == "\n"
    assert shows == [0.2, 0.3]


def test_ctrl_c_ends_it_where_a_callback_loses_the_exception(monkeypatch):
    shows = []

    def show_and_lose(options):
        shows.append(options["watch"])
        assert len(shows) == 1, "it goes on"
        lose_ctrl_c()

    monkeypatch.setattr(management_status, "show", show_and_lose)
    assert dbqueue("status", "--watch", 0.2) == "\n"
    assert shows == [0.2]


def test_nothing_is_cleared_where_the_terminal_knows_only_lines(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    options = {"tables": [], "database": None, "json": False, "no_color": True}
    for term, is_cleared in (("xterm", True), ("dumb", False)):
        monkeypatch.setenv("TERM", term)
        show(options)
        assert ("\x1b" in capsys.readouterr().out) == is_cleared


def test_the_next_look_connects_anew_where_the_connection_was_lost(capsys):
    options = {"tables": [], "database": None, "json": False, "no_color": True}
    show(options)
    lose_connection()
    show(options)
    assert "'default' cannot be asked" in capsys.readouterr().out
    show(options)
    assert capsys.readouterr().out.startswith("All is well")


@pytest.mark.parametrize("is_signed_off", [False, True])
def test_figures_without_the_last_seconds_of_a_lost_worker_say_so(is_signed_off):
    lost = "A worker was lost: what it did in its last seconds is not in these figures."
    worker = a_worker()
    a_worker(stopped_at=DbNow(), stop_reason="SIGTERM")
    top = Top(parse_served([]), None)
    top.look()
    assert lost not in status()
    assert lost not in seen_on(top)
    Worker.objects.filter(pk=worker.pk).update(beat_at=DbNow(plus=-300))
    if is_signed_off:
        Worker.objects.filter(pk=worker.pk).sign_off_silent(30)
    top.look()
    assert lost in (status() if is_signed_off else fails(1, "status")[0]).splitlines()
    assert lost in seen_on(top)


def seen_on(top):
    shown = StringIO()
    Console(width=200, file=shown).print(screen(top, 50))
    return shown.getvalue()


def test_queues_that_a_worker_serves_are_all_well():
    a_worker(serves=["queueapp.note"])
    Note.objects.create()
    assert dbqueue("status").startswith("All is well: 1 worker at work, 1 job to do")
