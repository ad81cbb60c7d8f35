"""``dbqueue top``, at a real terminal."""

import sys

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError

from django_dbqueue.management import top as module
from django_dbqueue.management.top import split
from django_dbqueue.management.top_model import Top
from django_dbqueue.models import Queue, Worker
from django_dbqueue.monitor.deeds import deeds
from django_dbqueue.worker.served import parse_served
from tests.kit.command_line import refused
from tests.kit.failures import count, failed
from tests.kit.overview import a_worker
from tests.kit.terminal import at_terminal
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")

NOTE = "queueapp.note"
UP, DOWN = "\x1b[A", "\x1b[B"


@pytest.fixture
def anna():
    user = User.objects.create_user("anna")
    yield user
    user.delete()


def test_a_person_pauses_retries_and_stops_at_a_terminal(database_url, anna):
    failed()
    count(1)
    Note.objects.create()
    worker = a_worker(host="web1", running={"0": [{"job": "queueapp.note 7", "seconds": 12.0}]})
    words = ("dbqueue", "top", NOTE, "--every", "0.3", "--by", "anna")
    with at_terminal(database_url, *words, width=160) as terminal:
        terminal.wait_for("Worth a look: 1 attempt failed", 20)
        for said in ("queueapp.note:default", "OSError", "web1", "q quit", "queueapp.note 7"):
            terminal.wait_for(said)
        terminal.press("p")
        terminal.wait_for("Pause queueapp.note, queue default? [y/N]")
        assert not Queue.objects.exists()
        terminal.press("n")
        terminal.wait_for("nothing was changed")
        assert not Queue.objects.exists()
        terminal.press("py")
        terminal.wait_for("Paused queueapp.note, queue default")
        assert Note.objects.paused_queues() == {"default"}
        terminal.press(f"{DOWN}r")
        terminal.wait_for("Retry 1 failed jobs of queueapp.note?")
        terminal.press("y")
        terminal.wait_for("Retry: 1 changed")
        assert Note.objects.ready().count() == 2
        terminal.press(DOWN * 9 + "s")
        terminal.wait_for("Ask web1")
        terminal.press("y")
        terminal.wait_for("was asked to stop")
        assert Worker.objects.get(pk=worker.pk).stop_requested_at is not None
        terminal.press("q")
        assert terminal.end() == 0
        # The screen from before it is there again, and keys are shown as before.
        assert terminal.raw.rstrip().endswith("\x1b[?1049l\x1b[?25h") or "?1049l" in terminal.raw
    assert [one.said.partition(";")[0] for one in deeds().found] == [
        f"Asked {worker} to stop",
        "Retry: 1 changed",
        "Paused queueapp.note, queue default",
    ]


def test_it_renews_itself_and_ends_by_ctrl_c(database_url):
    with at_terminal(database_url, "dbqueue", "top", "--every", "0.3", width=160) as terminal:
        terminal.wait_for("All is well: nothing to do")
        Note.objects.create(queue="new")
        terminal.wait_for("queueapp.note:new")
        terminal.wait_for("Act now")
        terminal.press("\x03")
        assert terminal.end() == 0
        assert "Traceback" not in terminal.text


def test_strangers_words_do_nothing_to_the_terminal(database_url):
    Note.objects.create()
    Note.objects.pause("default", reason="\x1b]0;owned\x07 [bold]paper")
    with at_terminal(database_url, "dbqueue", "top", width=200) as terminal:
        terminal.wait_for("[bold]paper")
        assert "\x1b]0;" not in terminal.raw
        terminal.press("q")
        assert terminal.end() == 0


def test_without_rich_it_names_what_to_install(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    assert "pip install 'django-dbqueue[top]'" in refused("top")


def test_without_a_terminal_it_names_what_does_without():
    assert not sys.stdout.isatty()
    assert "needs a terminal" in refused("top")
    assert "status --json" in refused("top", "--json")


@pytest.mark.any_database
def test_keys_of_cursors_are_one_key_each():
    assert list(split(f"a{UP}{DOWN}jq")) == ["a", UP, DOWN, "j", "q"]
    assert list(split("")) == ["q"]


def a_top():
    top = Top(parse_served([NOTE]), None)
    top.look()
    return top


def test_the_selected_line_stays_selected_where_others_come_and_go():
    for name in ("b", "d"):
        Note.objects.create(queue=name)
    top = a_top()
    top.press(DOWN)
    assert top.line.key == ("queue", NOTE, "d")
    Note.objects.create(queue="c")
    top.look()
    assert top.line.key == ("queue", NOTE, "d")
    Note.objects.filter(queue="d").cancel()
    top.look()
    assert top.line.key == ("queue", NOTE, "b")
    top.press(UP)
    assert top.line.key == ("queue", NOTE, "b")


def test_a_key_that_is_about_something_else_says_so():
    Note.objects.create()
    top = a_top()
    top.press("s")
    assert (top.said, top.question) == ("s: select a worker that lives first", None)
    top.press("x")
    assert "q quit" in top.said


def test_a_database_that_cannot_be_asked_is_told_and_asked_again(monkeypatch):
    Note.objects.create()
    top = a_top()

    def broken(*_):
        raise OperationalError("the server is gone")

    with monkeypatch.context() as patch:
        patch.setattr("django_dbqueue.management.top_model.overview", broken)
        top.look()
    assert top.problem == "It cannot be asked: the server is gone"
    assert top.queues
    top.look()
    assert top.problem == ""


def test_what_cannot_be_done_is_told(monkeypatch):
    Note.objects.create()
    top = a_top()

    def broken(*_):
        raise OperationalError("the server is gone")

    monkeypatch.setattr("django_dbqueue.management.top_model.pause", broken)
    top.press("p")
    top.press("y")
    assert top.said == "It was not done: the server is gone"
    wait_until(lambda: top.wants_look)
