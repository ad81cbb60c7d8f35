"""``dbqueue top``, at a real terminal."""

import sys

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError

from django_dbqueue.fields import DbNow
from django_dbqueue.management import top as module
from django_dbqueue.management.looking import until_ctrl_c
from django_dbqueue.management.top import follow, split
from django_dbqueue.management.top_model import Top
from django_dbqueue.models import Queue, Worker
from django_dbqueue.models.queue import ALL
from django_dbqueue.monitor.activity import activity
from django_dbqueue.operate import acting
from django_dbqueue.worker.served import parse_served
from tests.kit.bounds import limits
from tests.kit.command_line import refused
from tests.kit.failures import count, failed
from tests.kit.lost_connection import lose_connection
from tests.kit.overview import a_worker
from tests.kit.terminal import at_terminal, lose_ctrl_c
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
    assert [one.said.partition(";")[0] for one in activity().found] == [
        f"Asked {worker} to stop",
        "Retry: 1 changed",
        "Paused queueapp.note, queue default",
    ]


def test_it_renews_itself_and_ends_by_ctrl_c(database_url):
    with at_terminal(database_url, "dbqueue", "top", "--every", "0.3", width=160) as terminal:
        terminal.wait_for("All is well: nothing waits")
        Note.objects.create(queue="new")
        terminal.wait_for("queueapp.note:new")
        terminal.wait_for("Act now")
        terminal.press("\x03")
        assert terminal.end() == 0
        assert "Traceback" not in terminal.text


@pytest.mark.any_database
def test_ctrl_c_ends_it_where_a_callback_loses_the_exception(monkeypatch):
    top, looks = a_top(), []

    def look_and_lose():
        looks.append(1)
        lose_ctrl_c()
        top.has_ended = len(looks) > 1

    monkeypatch.setattr(top, "look", look_and_lose)
    monkeypatch.setattr(module, "pressed", lambda *_: pytest.fail("it waits for keys"))
    with until_ctrl_c() as ctrl_c:
        follow(top, 0, 60.0, ctrl_c)
    assert looks == [1]


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


def a_top(user=None):
    top = Top(parse_served([NOTE]), user)
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
        patch.setattr("django_dbqueue.management.top_model.look_at", broken)
        top.look()
    assert top.problem == "It cannot be asked: the server is gone"
    assert top.queues
    top.look()
    assert top.problem == ""


def test_the_next_look_connects_anew_where_the_connection_was_lost():
    top = a_top()
    lose_connection()
    top.look()
    assert "'default' cannot be asked" in top.verdict.sentence
    top.look()
    assert top.verdict.sentence.startswith("All is well")


def said_to(top, keys):
    for key in keys:
        top.press(key)
    return top.said


def test_what_runs_are_jobs_of_workers_that_live_until_now_and_the_longest_first():
    a_worker(running={"0": [{"job": "queueapp.note 1", "seconds": 99.0}]}, beat_at=DbNow(plus=-999))
    short = {"job": "queueapp.note 2", "seconds": 1.0, "limit": 2.0}
    a_worker(running={"0": [short]})
    a_worker(running={"0": [{"job": "queueapp.note 3", "seconds": 5.0}]}, beat_at=DbNow(plus=-3))
    [first, second] = a_top().running
    assert (first.job, second.job) == ("queueapp.note 3", "queueapp.note 2")
    assert first.seconds >= 8.0


def test_a_pause_of_everything_is_not_resumed_by_one_queue():
    Note.objects.create()
    Queue.objects.pause_everything()
    top = a_top()
    assert "manage.py dbqueue resume --all" in said_to(top, "p")
    assert top.question is None


def test_a_whole_table_is_resumed_where_all_of_it_is_paused_and_what_still_holds_is_told(anna):
    Note.objects.create()
    Note.objects.pause(ALL)
    top = a_top(anna.pk)
    top.press("p")
    assert top.question.text == f"Resume all of {NOTE}?"
    Queue.objects.pause_everything()
    said = said_to(top, "y")
    assert said == f"Resumed all of {NOTE}, but everything is still paused"
    Queue.objects.resume_everything()
    assert not Note.objects.paused_queues()
    assert [one.said for one in activity().found] == [f"Resumed all of {NOTE}; dbqueue top"]


def test_a_lane_is_resumed_by_what_it_is_paused_by():
    with limits(rate="5/s", rate_key="{text}"):
        Note.objects.create(text="news")
        Note.objects.pause("default")
        top = a_top()
        said_to(top, [DOWN, "p"])
        assert top.line.item.queue == "default@news"
        assert top.question.text == f"Resume {NOTE}, queue default?"
        assert said_to(top, "y") == f"Resumed {NOTE}, queue default"
        assert not Note.objects.paused_queues()


def fail_at_second_chunk(monkeypatch):
    """Jobs of one kind that are retried two by two."""
    monkeypatch.setattr(acting, "CHUNK_ROWS", 2)
    for _ in range(5):
        failed()
    do, chunks = acting.Verb.do, []

    def broken(verb, jobs):
        chunks.append(jobs)
        if len(chunks) == 2:
            raise OperationalError("the server is gone")
        return do(verb, jobs)

    monkeypatch.setattr(acting.Verb, "do", broken)


def test_what_was_retried_before_an_error_is_told_and_recorded(anna, monkeypatch):
    fail_at_second_chunk(monkeypatch)
    top = a_top(anna.pk)
    said = said_to(top, [*[DOWN] * len(top.queues), "r", "y"])
    assert said == "Retry: 2 changed; the rest was not done: the server is gone"
    assert Note.objects.ready().count() == 2
    assert [one.said.partition(";")[0] for one in activity().found] == ["Retry: 2 changed"]


def test_what_was_done_is_told_where_it_cannot_be_recorded(anna, monkeypatch):
    Note.objects.create()
    top = a_top(anna.pk)

    def broken(*_, **__):
        raise OperationalError("the log is gone")

    monkeypatch.setattr("django_dbqueue.management.top_model.record_of", broken)
    said = said_to(top, "py")
    assert said == f"Paused {NOTE}, queue default, but it is not in the log: the log is gone"


def test_a_failure_in_two_named_queues_is_two_lines():
    for queue in ("a", "b"):
        failed(queue=queue)
    top = Top(parse_served([f"{NOTE}:a", f"{NOTE}:b"]), None)
    top.look()
    assert len({one.key for one in top.failures}) == 2


def test_the_verdict_is_of_the_queues_that_are_named():
    Note.objects.create(queue="slow")
    top = Top(parse_served([f"{NOTE}:default"]), None)
    top.look()
    assert top.verdict.sentence.startswith("All is well")
    assert top.queues == []
    top = Top(parse_served([f"{NOTE}:slow"]), None)
    top.look()
    assert "queue slow: no living worker serves it" in top.verdict.sentence


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
