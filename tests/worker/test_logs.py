"""One structured line per event, and signals with the lifecycle's nouns."""

import json
import logging
import os
import signal
import sys
import time

import pytest

from django_dbqueue import events, signals
from django_dbqueue.lifecycle import holder, reap
from django_dbqueue.lifecycle.claim import claim
from django_dbqueue.lifecycle.claim_end import after_failure, duration
from django_dbqueue.management.commands._log import JSONFormatter, TextFormatter
from django_dbqueue.states import Status
from django_dbqueue.worker import agent as agent_module
from django_dbqueue.worker import job_signals
from django_dbqueue.worker.agent import SignalDispatcher
from django_dbqueue.worker.buffer import Outcome
from django_dbqueue.worker.finisher import Finisher
from django_dbqueue.worker.session import Session
from tests.kit.inline_worker import work_off
from tests.kit.jobs import claimed, fresh, table
from tests.kit.processes import lines, worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Fleeting, Note, Unspeakable

# What is told of a job does not depend on where its row is.
pytestmark = [pytest.mark.any_database, pytest.mark.usefixtures("db_rows")]


def log_of(process):
    return [json.loads(line) for line in process.stderr.splitlines() if line.startswith("{")]


def test_a_failed_job_is_one_json_object_that_says_what_happens_next():
    jobs = [Note.objects.create(action="fail", text="a\nb"), Note.objects.create(action="retry")]
    failed = work_off("queueapp.note", "--tries", "2").told("job.failed")
    first = next(line for line in failed if line["id"] == jobs[0].pk)
    assert (first["table"], first["queue"], first["attempt"]) == ("queueapp.note", "default", 1)
    assert first["owner"].startswith(first["worker"])
    assert first["seconds"] >= 0
    assert first["level"] == "warning"
    assert "RuntimeError" in first["message"]
    assert "attempt 1 of 2, retried in 0.2 s" in first["message"]
    second = next(line for line in failed if line["id"] == jobs[1].pk)
    assert "retried in 1 h" in second["message"]


def test_the_last_failure_says_that_the_attempts_are_used_up():
    Note.objects.create(action="fail", text="a\nb")
    said = work_off("queueapp.note", "--tries", "1")
    [line] = [line for line in str(said).splitlines() if "event=job.failed" in line]
    assert "buried: 1 of 1 attempts used" in line
    assert "a\\nb" in line
    assert "table=queueapp.note queue=default id=" in line


def test_starts_and_completions_are_shown_when_asked_for(database_url):
    Note.objects.create()
    with worker(database_url, "--stop-when-empty", "--json", "-v", "2") as process:
        process.end()
    shown = [line["event"] for line in log_of(process) if "event" in line]
    assert shown == ["worker.started", "job.started", "job.completed", "worker.stopped"]


def test_a_worker_names_itself_and_its_reason(database_url):
    with worker(database_url, "--json") as process:
        wait_until(lambda: "worker.started" in process.stderr)
        process.send(signal.SIGTERM)
        process.end()
    told = {line["event"]: line for line in log_of(process) if "event" in line}
    assert "SIGTERM" in told["worker.stopping"]["message"]
    assert "SIGTERM" in told["worker.stopped"]["message"]
    assert len({line["worker"] for line in told.values()}) == 1


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.25, "0.25 s"),
        (5, "5 s"),
        (59.4, "59 s"),
        (1200, "20 min"),
        (3599, "1 h"),
        (5400, "1 h 30 min"),
        (172800, "2 d"),
        (180000, "2 d 2 h"),
    ],
)
def test_a_pause_is_said_in_words(seconds, text):
    assert duration(seconds) == text


def test_both_forms_of_a_line_hold_the_fields():
    record = logging.makeLogRecord({"msg": "it\nfails", "event": "job.failed", "id": 7})
    assert TextFormatter().format(record).endswith("it\\nfails event=job.failed id=7")
    line = json.loads(JSONFormatter().format(record))
    assert (line["message"], line["event"], line["id"]) == ("it\nfails", "job.failed", 7)


def test_control_characters_reach_no_terminal():
    record = logging.makeLogRecord({"msg": "a\x1b[31mb\r\0", "queue": "\x07"})
    assert TextFormatter().format(record).endswith("a\\x1b[31mb\\r\\x00 queue=\\x07")
    try:
        raise ValueError("red: \x1b[31m")
    except ValueError:
        record.exc_info = sys.exc_info()
    shown = TextFormatter().format(record)
    assert shown.endswith("ValueError: red: \\x1b[31m")
    assert "\nTraceback" in shown


def test_an_error_that_cannot_be_printed_is_logged_all_the_same():
    Note.objects.create(action="silence")
    [failed] = work_off("queueapp.note").told("job.failed")
    assert "Unspeakable" in failed["message"]


# Signals


class Heard:
    def __init__(self, *names):
        self.news = []
        self.names = names

    def __enter__(self):
        for name in self.names:
            receiver = self._receiver(name)
            getattr(signals, name).connect(receiver, sender=Note, weak=False, dispatch_uid=name)
        return self.news

    def __exit__(self, *_):
        for name in self.names:
            assert getattr(signals, name).disconnect(sender=Note, dispatch_uid=name)

    def _receiver(self, name):
        def receive(sender, job, **more):
            self.news.append((name, job.pk, {k: v for k, v in more.items() if k != "signal"}))
            raise RuntimeError("a receiver that does not work")

        return receive


def test_a_failure_is_told_with_the_seconds_until_the_retry_and_the_burial_too():
    job = claimed(text="x")
    error = RuntimeError("no")
    with Heard("job_failed", "job_buried") as news:
        verdict = holder.fail(table(), job, error)
        events.failed(table(), job, error, 0.1, verdict, job.claim_owner)
        assert news == [("job_failed", job.pk, {"error": error, "retry_in": 0.2})]
        job.attempts = 3
        verdict = after_failure(table().policy, job, error)
        events.failed(table(), job, error, 0.1, verdict, "w.1")
    assert news[1][2]["retry_in"] is None
    assert news[2] == ("job_buried", job.pk, {"error": error})


def test_reaped_jobs_are_told_as_they_are_by_now():
    Note.objects.create()
    [job] = claim(table(), "default", 1, "w1.1-1")
    with Heard("job_reaped", "job_buried") as news:
        assert not job_signals.is_reaping_heard(table(Fleeting))
        assert job_signals.is_reaping_heard(table())
        started = {str(job.pk): reap.Trace()}
        job_signals.send_reaped(table(), reap.reap_owner(table(), "w1.", started))
    [(name, pk, more)] = news
    assert (name, pk) == ("job_reaped", job.pk)
    assert type(more["error"]).__name__ == "WorkerLost"


def test_receivers_hear_of_every_turn_of_a_jobs_life_and_may_fail(database_url, log):
    """The receivers of the test app write into the job's own log, then raise."""
    done = Note.objects.create(log=log, text="tell")
    with worker(database_url):
        wait_until(lambda: fresh(done).finished_at)
        crashing = Note.objects.create(log=log, text="tell", action="crash")
        wait_until(lambda: fresh(crashing).finished_at)
        # Each death is told by a process of its own.
        wait_until(lambda: str(lines(log)).count("job_reaped") == 3)
        told = wait_until(lambda: "job_buried" in str(lines(log)) and lines(log))
    heard = [line.split()[0] for line in told if line.split()[-1] == f"note-{done.pk}"]
    assert heard == ["job_started", "job_completed"]
    heard = [line.split()[0] for line in told if line.split()[-1] == f"note-{crashing.pk}"]
    assert heard.count("job_started") == heard.count("job_reaped") == 3
    assert heard.count("job_buried") == 1


def test_a_receiver_that_interrupts_holds_up_no_outcome():
    job = Note.objects.create(text="interrupt")
    work_off("queueapp.note")
    assert fresh(job).status == Status.DONE


@pytest.fixture
def hanging(db_rows, tmp_path):
    """A dispatcher's process, with a receiver that hangs, and a supervisor's handler of TERM."""
    dispatcher = SignalDispatcher()
    heard = tmp_path / "heard"

    def hang(**_):
        heard.touch()
        time.sleep(600)

    signals.job_reaped.connect(hang, sender=Note)
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        job = claimed()
        dispatcher.tell(table(), reap.reap_owner(table(), job.claim_owner))
        dispatcher.turn()
        wait_until(heard.exists)
        yield dispatcher
    finally:
        for pid in dispatcher._sent:
            os.kill(pid, signal.SIGKILL)
        signal.signal(signal.SIGTERM, before)
        signals.job_reaped.disconnect(hang, sender=Note)


def test_a_dispatcher_ends_at_term_though_its_receiver_hangs(hanging):
    [pid] = hanging._sent
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: hanging.turn() or not hanging._sent)


@pytest.fixture
def hasty(monkeypatch):
    monkeypatch.setattr(agent_module, "RECEIVERS_SECONDS_MAX", 1)


def test_a_dispatcher_ends_by_itself_though_its_receiver_hangs(hasty, hanging):
    wait_until(lambda: hanging.turn() or not hanging._sent)


def test_every_child_tells_of_its_start_and_its_end(database_url, tmp_path):
    path = tmp_path / "children"
    with worker(database_url, "--processes", "2", QUEUEAPP_CHILDREN=str(path)) as process:
        wait_until(lambda: len(lines(path)) == 2)
        process.send(signal.SIGTERM)
        process.end()
    assert sorted(lines(path)) == ["worker_started"] * 2 + ["worker_stopped"] * 2


def test_an_error_that_cannot_be_printed_loses_no_word_about_a_lost_claim(caplog):
    job = claimed()
    owner = job.claim_owner
    reap.reap_owner(table(), owner)
    finisher = Finisher(Session({"default"}), 10, lambda: None)
    finisher.put(Outcome(table(), owner, job, Unspeakable()))
    finisher.flush()
    [lost] = [one for one in caplog.records if getattr(one, "event", "") == "job.lost"]
    assert "its error was: Unspeakable: <exception str() failed>" in lost.getMessage()
    assert not finisher.pending


def test_every_kind_of_control_character_is_shown_and_a_traceback_keeps_its_lines():
    record = logging.makeLogRecord({"msg": "\x7f\x9b1m\u2028"})
    assert TextFormatter().format(record).endswith("\\x7f\\x9b1m\\u2028")
    try:
        raise ValueError("no")
    except ValueError:
        record.exc_info = sys.exc_info()
    assert TextFormatter().format(record).splitlines()[-1] == "ValueError: no"
