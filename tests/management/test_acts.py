"""``dbqueue retry``, ``kick``, ``bury``, ``release``, ``cancel`` and ``clear``: whom they reach."""

import os
import sys
from collections import Counter
from contextlib import contextmanager
from io import StringIO
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.db.models import QuerySet

from django_dbqueue.fields import DbNow
from django_dbqueue.mail.models import Email
from django_dbqueue.management import acts
from django_dbqueue.models import Job
from django_dbqueue.operate import acting, choice
from django_dbqueue.operate.keyset import keyset_of
from django_dbqueue.operate.moments import now_of
from django_dbqueue.states import Status
from tests.kit.admin_lists import fill
from tests.kit.bounds import limits
from tests.kit.command_line import as_json, dbqueue, fails, refused
from tests.kit.jobs import fresh, overwrite
from tests.kit.terminal import at_terminal
from tests.kit.waiting import wait_until
from tests.queueapp.models import ArchivedKept, Kept, Note, Shared

pytestmark = pytest.mark.usefixtures("db_rows")

READY, CLAIMED, DONE, DELAYED, BURIED = Status


def states(model: type[Job] = Note) -> dict[str, int]:
    found = QuerySet(model).values_list("status", flat=True)
    return dict(Counter(Status(one).label for one in found))


def one_of_each(model: Any = Note, **columns: Any) -> dict[Status, Any]:
    return {status: one(status, model, **columns) for status in Status}


def one(status: Status, model: Any = Note, **columns: Any) -> Any:
    job = model.objects.create(**columns)
    times = {CLAIMED: "retry_at", DELAYED: "retry_at", DONE: "finished_at", BURIED: "finished_at"}
    more: dict[str, Any] = {times[status]: DbNow()} if status in times else {}
    more |= {"owner": "w.1"} if status == CLAIMED else {}
    overwrite(job, status=status, **more)
    return fresh(job)


def failed(message: str, exception: str = "OSError", **columns: Any) -> Any:
    job = one(BURIED, **columns)
    old = {"exception": "KeyError", "message": "before"}
    overwrite(job, errors=[old, {"exception": exception, "message": message}])
    return fresh(job)


@contextmanager
def before_each_write(act: Any) -> Any:
    """Call it with the number of the writing statement that is about to be sent."""
    number = 0

    def intercept(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        nonlocal number
        if sql.startswith(("UPDATE", "DELETE")) and "queueapp_note" in sql:
            number += 1
            own, number_now = connection.execute_wrappers[:], number
            connection.execute_wrappers.clear()
            try:
                act(number_now)
            finally:
                connection.execute_wrappers[:] = own
        return execute(sql, params, many, context)

    with connection.execute_wrapper(intercept):
        yield


@pytest.mark.parametrize(
    ("words", "changed", "left"),
    [
        (["retry"], 1, {"ready": 2, "claimed": 1, "done": 1, "delayed": 1}),
        (["kick"], 2, {"ready": 3, "claimed": 1, "done": 1}),
        (["bury", "--yes"], 3, {"buried": 4, "done": 1}),
        (["release", "--yes"], 1, {"ready": 2, "done": 1, "delayed": 1, "buried": 1}),
        (["cancel", "--yes"], 5, {}),
        (["clear", "--yes"], 2, {"claimed": 1, "done": 1, "buried": 1}),
        (["clear", "--yes", "--include-claimed"], 3, {"done": 1, "buried": 1}),
    ],
)
def test_each_does_its_verb_to_the_states_that_it_is_about(words, changed, left):
    one_of_each()
    report = as_json(*words, "queueapp.Note")
    assert (report["verb"], report["changed"], report["skipped"]) == (words[0], changed, 0)
    assert states() == left


def test_what_is_cancelled_goes_into_the_archive_if_there_is_one():
    Kept.objects.create(text="paper")
    assert dbqueue("clear", "queueapp.Kept", "--yes") == "queueapp.kept: 1 changed\n"
    assert ArchivedKept.objects.get().text == "paper"


def test_what_waits_for_a_key_is_buried_with_what_has_it():
    for _ in range(3):
        Shared.objects.create(tenant="one")
    Shared.objects.claim(limit=2)
    Shared.objects.claim()  # the last one is put aside
    dbqueue("bury", "queueapp.Shared", "--yes")
    assert states(Shared) == {"buried": 3}


@pytest.mark.parametrize("columns", [["finished_at"], ["finished_at", "failed_at"]])
def test_it_makes_no_difference_whether_a_failed_job_says_when_it_failed(columns):
    for text, ago in {"a": 60, "b": 3600, "c": 7200}.items():
        overwrite(failed("gone", text=text), **dict.fromkeys(columns, DbNow(-ago)))
    found = as_json("failed", "--older-than=30m")["failed"]
    assert len(found) == 2
    assert as_json("retry", "--all", "--older-than=30m", "--newer-than=90m")["changed"] == 1
    assert QuerySet(Note).get(status=READY).text == "b"


def test_a_retried_job_has_all_its_attempts():
    job = failed("gone")
    overwrite(job, attempts=3, crashes=1)
    dbqueue("retry", "queueapp.Note")
    again = fresh(job)
    assert (again.status, again.attempts, again.crashes) == (READY, 0, 0)
    assert len(again.errors) == 2


@pytest.mark.parametrize(
    ("args", "texts"),
    [
        (["queueapp.Note"], "abcd"),
        (["queueapp.Note:slow"], "bd"),
        (["--queue=slow"], "bd"),
        (["--queue=slow", "--queue=default"], "abd"),
        (["--error=TIMED out"], "ab"),
        (["--error=oserror"], "acd"),
        (["--error=before"], ""),
        (["queueapp.Note", "--older-than=1h"], "cd"),
        (["queueapp.Note", "--newer-than=30m"], "ab"),
        (["queueapp.Note", "--older-than=1h", "--newer-than=3h"], "d"),
        (["queueapp.Note:slow", "--older-than=1h", "--error=full"], "d"),
        (["--all"], "abcd"),
        (["queueapp.Kept"], ""),
    ],
)
def test_filters_choose(args, texts):
    # Of failed jobs it is their end that counts: they were all enqueued long ago.
    overwrite(failed("timed out", text="a"), created_at=DbNow(-90_000))
    overwrite(failed("Timed out", "Odd", text="b", queue="slow"), created_at=DbNow(-90_000))
    overwrite(failed("disk full", text="c", queue="third"), finished_at=DbNow(-20_000))
    overwrite(failed("disk full", text="d", queue="slow"), finished_at=DbNow(-7_200))
    report = as_json("retry", *args)
    kicked = "".join(sorted(QuerySet(Note).filter(status=READY).values_list("text", flat=True)))
    assert (kicked, report["changed"]) == (texts, len(texts))


def test_of_a_job_that_waits_the_age_counts_from_its_enqueueing():
    old, _ = one(DELAYED), one(DELAYED)
    overwrite(old, created_at=DbNow(-7_200))
    assert as_json("kick", "queueapp.Note", "--older-than=1h")["changed"] == 1
    assert fresh(old).status == READY


def test_a_state_is_chosen_among_those_that_the_verb_knows():
    one_of_each()
    assert as_json("bury", "--state=ready", "--state=delayed", "--yes")["changed"] == 2
    assert states() == {"claimed": 1, "done": 1, "buried": 3}
    assert "invalid choice: 'done'" in refused_by_parser("bury", "--state=done", "--yes")


def refused_by_parser(*args):
    return fails(1, *args)[1]  # as code calls it: the shell gets 2


def test_ids_are_single_ones_and_ranges():
    jobs = [one(BURIED) for _ in range(6)]
    first, last = jobs[0].pk, jobs[-1].pk
    chosen = [f"{first}-{first + 2}", last]
    assert dbqueue("retry", "queueapp.Note", "--id", *chosen) == "queueapp.note: 4 changed\n"
    assert [fresh(job).status for job in jobs] == [READY] * 3 + [BURIED] * 2 + [READY]


def test_an_id_that_was_not_changed_is_an_alert():
    kicked, ready = one(BURIED), one(READY)
    told = fails(1, "retry", "queueapp.Note", "--id", kicked.pk, ready.pk, ready.pk + 1000)
    assert told[0] == "queueapp.note: 1 changed, 1 skipped: their state had moved on\n"
    assert "1 of 3 jobs" in told[1]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["retry"], "Name a table"),
        (["cancel", "--yes"], "Name a table"),
        (["retry", "queueapp.Noted"], "did you mean queueapp.Note?"),
        (["retry", "--id", "1"], "name the one table"),
        (["retry", "queueapp.Note", "queueapp.Kept", "--id", "1"], "name the one table"),
        (["retry", "queueapp.Note", "--id", "1", "--queue", "slow"], "no other filter"),
        (["retry", "queueapp.Note", "--id", "{}", "x"], "'x' is no id"),
        (["retry", "queueapp.Note", "--id", "{}", "9" * 30], "is no id"),
        (["retry", "queueapp.Note", "--id", "9-1"], "is no range"),
        (["retry", "queueapp.Note", "--id", "1-9000000"], "is no range"),
        (["cancel", "queueapp.Note"], "--yes"),
        (["clear", "queueapp.Note"], "--dry-run"),
        (["bury", "queueapp.Note"], "no terminal"),
        (["release", "queueapp.Note"], "no terminal"),
    ],
)
def test_what_is_unclear_or_not_confirmed_is_refused_and_changes_nothing(args, words):
    jobs = one_of_each()
    assert words in refused(*(arg.format(jobs[BURIED].pk) for arg in args))
    assert all(fresh(job).status == status for status, job in jobs.items())


@pytest.mark.parametrize(("answer", "gone"), [("y\n", True), ("\n", False), ("no\n", False)])
def test_at_a_terminal_it_says_what_happens_to_how_many_and_asks(answer, gone, monkeypatch, capsys):
    fill(3, [READY, DELAYED])
    ours, terminal = os.openpty()
    os.write(ours, answer.encode())
    with open(terminal, closefd=False) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        if gone:
            assert as_json("cancel", "queueapp.Note:q0")["changed"] == 2
        else:
            assert refused("cancel", "queueapp.Note:q0") == "nothing was changed"
    os.close(terminal)
    os.close(ours)
    asked = capsys.readouterr().err
    assert "queueapp.note:q0: 2 jobs" in asked
    assert "taken out for good" in asked
    assert QuerySet(Note).filter(queue="q0").count() == (0 if gone else 2)


def test_a_dry_run_counts_all_of_them_and_changes_nothing(monkeypatch):
    monkeypatch.setattr(acting, "CHUNK_ROWS", 3)
    fill(10)
    report = as_json("cancel", "queueapp.Note", "--dry-run")
    assert (report["matched"], report["changed"], report["dry_run"]) == (50, 0, True)
    said = dbqueue("bury", "queueapp.Note", "--dry-run", "--limit=7")
    assert said == "queueapp.note: 7 would be changed\nMore match: --limit was reached.\n"
    assert states() == {"ready": 10, "claimed": 10, "done": 10, "delayed": 10, "buried": 10}


def test_a_limit_holds_over_all_tables():
    fill(3, [BURIED])
    for _ in range(3):
        one(BURIED, Kept)
    report = as_json("retry", "queueapp.Note", "queueapp.Kept", "--limit=4")
    assert [table["changed"] for table in report["tables"]] == [3, 1]
    assert report["more"]
    assert states(Kept) == {"ready": 1, "buried": 2}


def test_all_are_reached_in_chunks_of_few(monkeypatch):
    monkeypatch.setattr(acting, "CHUNK_ROWS", 4)
    fill(11, [BURIED, DELAYED])
    writes = []
    with before_each_write(writes.append):
        report = as_json("kick", "queueapp.Note")
    assert (report["changed"], len(writes)) == (22, 6)
    assert states() == {"ready": 22}


def test_a_job_that_moves_on_before_the_write_is_skipped_and_told():
    jobs = fill(4, [BURIED])
    with before_each_write(lambda _: overwrite(jobs[1], status=READY)):
        told = dbqueue("retry", "queueapp.Note")
    assert told == "queueapp.note: 3 changed, 1 skipped: their state had moved on\n"


def test_jobs_that_are_claimed_again_meanwhile_are_not_released_again(monkeypatch):
    monkeypatch.setattr(acting, "CHUNK_ROWS", 2)
    fill(6, [CLAIMED])
    # The new claims end later than these, so that they come behind them.
    QuerySet(Note).update(retry_at=DbNow(1))
    claims = []

    def claim_again(number: int) -> None:
        assert number < 20, "it goes on for ever"
        claims.extend(Note.objects.claim(10, queue=None))

    with before_each_write(claim_again):
        report = as_json("release", "queueapp.Note", "--yes")
    assert report["changed"] == 6
    assert len(claims) == 4


def test_jobs_that_fail_once_more_meanwhile_are_not_retried_again(monkeypatch):
    monkeypatch.setattr(acting, "CHUNK_ROWS", 2)
    fill(6, [DELAYED])
    QuerySet(Note).update(retry_at=DbNow(-60))
    overwrite(one(DELAYED), retry_at=DbNow(3600))
    run: list[Any] = []

    def fail_all(number: int) -> None:
        assert number < 20, "it goes on for ever"
        for job in Note.objects.claim(10, queue=None):
            run.append(job.pk)
            job.fail("still down")

    with before_each_write(fail_all):
        report = as_json("kick", "queueapp.Note")
    assert report["changed"] == 7
    assert len(run) == len(set(run))


def test_release_ends_no_claim_that_comes_into_the_middle_of_its_list(monkeypatch):
    monkeypatch.setattr(acting, "CHUNK_ROWS", 2)
    Note.objects.enqueue_many([{"time_to_run": n} for n in (3600, 60, 60, 60, 60, 60)])
    Note.objects.claim(6)
    again: list[Any] = []

    def claim_again(number: int) -> None:
        assert number < 20, "it goes on for ever"
        again.extend(Note.objects.claim(9))

    with before_each_write(claim_again):
        report = as_json("release", "queueapp.Note", "--yes")
    assert report["changed"] == 6
    assert [fresh(job).owner for job in again] == [job.claim_owner for job in again] != []


@pytest.mark.parametrize("word", ["cancel", "clear", "bury"])
@pytest.mark.parametrize("delay", [0, 60])
def test_what_comes_after_it_began_is_left_wherever_it_comes_in(monkeypatch, word, delay):
    monkeypatch.setattr(acting, "CHUNK_ROWS", 2)
    for queue, more in (("a", 0), ("a", 0), ("a", 0), ("z", 60)):
        Note.objects.enqueue(queue=queue, delay=delay and delay + more)
    new: list[Any] = []

    def enqueue(number: int) -> None:
        if not new:
            new.append(Note.objects.enqueue(queue="m", delay=delay + 30 if delay else 0)[0])

    with before_each_write(enqueue):
        report = as_json(word, "queueapp.Note", "--yes")
    assert report["changed"] == 4
    assert fresh(new[0]).status == (DELAYED if delay else READY)


def test_a_retry_at_the_time_that_a_job_has_still_writes_the_rest():
    job = Note.objects.create()
    overwrite(job, status=DELAYED, retry_at=DbNow(3600), losses=2)
    at = fresh(job).retry_at.isoformat()
    for more, changed in (([], 1), ([], 0), (["--time-to-run", "15m"], 1), ([], 0)):
        assert as_json("kick", "queueapp.Note", "--at", at, *more)["changed"] == changed
    assert (fresh(job).losses, fresh(job).time_to_run) == (0, 900)


def test_a_job_that_has_the_time_to_run_of_a_retry_is_retried():
    job = one(BURIED, time_to_run=900)
    assert as_json("kick", "queueapp.Note", "--time-to-run", "15m")["changed"] == 1
    assert fresh(job).status == READY


def test_a_job_that_is_named_is_released_whenever_it_was_claimed(monkeypatch):
    monkeypatch.setattr(choice, "CHUNK_IDS", 1)
    jobs = [one(CLAIMED), Note.objects.create()]
    with before_each_write(lambda _: Note.objects.claim()):
        report = as_json("release", "queueapp.Note", "--yes", "--id", *(str(j.pk) for j in jobs))
    assert report["changed"] == 2


def test_a_walk_without_a_moment_ends_where_jobs_come_back_meanwhile(monkeypatch):
    """As those of the admin and of bulk actions."""
    monkeypatch.setattr(acting, "CHUNK_ROWS", 2)
    fill(6, [CLAIMED])
    QuerySet(Note).update(retry_at=DbNow(1))
    progress = acting.Progress(acting.RELEASE)

    def claim_again(number: int) -> None:
        assert number < 20, "it goes on for ever"
        Note.objects.claim(10, queue=None)

    with before_each_write(claim_again):
        progress.do(keyset_of(Note.objects.all(), CLAIMED))
    assert progress.taken == 6


@pytest.mark.parametrize("use_tz", [True, False])
def test_moments_are_compared_whether_a_project_has_time_zones_or_not(settings, use_tz):
    settings.USE_TZ, settings.TIME_ZONE = use_tz, "Asia/Tokyo"
    one_of_each()
    assert as_json("cancel", "queueapp.Note", "--yes")["changed"] == 5


def test_what_is_claimed_while_somebody_thinks_it_over_is_not_released(monkeypatch):
    first, second = one(CLAIMED), Note.objects.create()

    def answer(*_: Any) -> None:
        asked = now_of("default")
        wait_until(lambda: now_of("default") > asked)
        Note.objects.claim()

    monkeypatch.setattr(acts, "confirm", answer)
    assert as_json("release", "queueapp.Note")["changed"] == 1
    assert (fresh(first).status, fresh(second).status) == (READY, CLAIMED)


def test_a_job_that_is_claimed_meanwhile_is_cancelled_as_it_was_ready_when_it_began(monkeypatch):
    monkeypatch.setattr(acting, "CHUNK_ROWS", 2)
    fill(6, [READY])
    claims: list[Any] = []

    def claim(number: int) -> None:
        claims.extend(Note.objects.claim(10, queue=None))

    with before_each_write(claim):
        assert as_json("cancel", "queueapp.Note", "--yes")["changed"] == 6
    assert len(claims) == 6


@pytest.mark.parametrize(
    "names",
    [
        ["queueapp.Note", "queueapp.note:default"],
        ["queueapp.note:default", "queueapp.note:default"],
        ["queueapp.note:default", "queueapp.note@default"],
    ],
)
def test_a_table_that_is_named_twice_is_one_table(names):
    one_of_each()
    assert as_json("cancel", *names, "--dry-run")["matched"] == len(Status)
    put_off = as_json("reschedule", *names, "--in", "10m", "--yes")
    assert (put_off["changed"], len(put_off["tables"])) == (2, 1)
    assert len(as_json("failed", *names)["failed"]) == 1


def test_an_id_that_is_named_twice_is_one_job():
    first, _, last = fill(3, [BURIED])
    ids = (f"{first.pk}-{last.pk}", str(last.pk))
    assert as_json("retry", "queueapp.note", "--id", *ids)["matched"] == 3


def test_what_was_done_is_told_where_the_database_fails(monkeypatch):
    monkeypatch.setattr(acting, "CHUNK_ROWS", 2)
    fill(6, [BURIED])

    def fail(number: int) -> None:
        if number == 3:
            raise OperationalError("the disk \x1b[2J is full")

    with before_each_write(fail):
        told, why = fails(1, "retry", "queueapp.Note")
    assert told == "queueapp.note: 4 changed\n"
    assert "the disk \\x1b[2J is full" in why
    assert states() == {"ready": 4, "buried": 2}


def test_what_was_done_is_told_where_somebody_interrupts_it(monkeypatch):
    monkeypatch.setattr(acting, "CHUNK_ROWS", 2)
    fill(6, [BURIED])

    def interrupt(number: int) -> None:
        if number == 2:
            raise KeyboardInterrupt

    with before_each_write(interrupt):
        told, why = fails(130, "retry", "queueapp.Note")
    assert told == "queueapp.note: 2 changed\n"
    assert "interrupted" in why


def test_mail_that_is_being_sent_again_is_not_retried(queueing):
    email = Email.objects.create(recipients="a@example.org", message=b"")
    overwrite(email, status=BURIED, finished_at=DbNow())
    again = Email.objects.create(recipients="a@example.org", message=b"", resend_of=email.pk)
    told = dbqueue("retry", "dbqueue_mail.Email")
    assert f"1 skipped: being sent again by email {again.pk}" in told
    assert fresh(email).status == BURIED


def test_a_queue_means_its_lanes_too_and_no_other_queue():
    with limits(rate="5/s", rate_key="{text}"):
        for queue in ("default", "defaultA", "Default", "other"):
            Note.objects.create(text="smtp", queue=queue)
        Note.objects.create()
        assert "2 would" in dbqueue("clear", "queueapp.Note:default", "--yes", "--dry-run")
        dbqueue("clear", "--queue", "default", "--yes")
        left = Note.objects.order_by("queue").values_list("queue", flat=True)
        assert sorted(left) == ["Default@smtp", "defaultA@smtp", "other@smtp"]
        dbqueue("clear", "queueapp.Note:other@smtp", "queueapp.Note:Default", "--yes")
        assert [one.queue for one in Note.objects.all()] == ["defaultA@smtp"]


def test_jobs_that_wait_for_their_key_are_among_the_delayed_ones():
    jobs = [Shared.objects.create(tenant="a") for _ in range(5)]
    Shared.objects.claim(limit=2)
    assert Shared.objects.claim() == []
    assert [fresh(job).waits_for_key for job in jobs] == [False, False, True, True, True]
    dbqueue("bury", "queueapp.Shared", "--state", "delayed", "--limit", 1, "--yes")
    assert Shared.objects.buried().count() == 1
    dbqueue("clear", "queueapp.Shared", "--yes")
    assert states(Shared) == {"claimed": 2, "buried": 1}


@pytest.mark.each_database
def test_what_comes_while_somebody_thinks_it_over_is_left_as_it_is(monkeypatch, capsys):
    class Terminal:
        def isatty(self):
            return True

        def readline(self):
            self.later = [one(READY), one(BURIED)]
            overwrite(self.later[1], failed_at=DbNow())
            return "y\n"

    terminal = Terminal()
    monkeypatch.setattr(sys, "stdin", terminal)
    one_of_each()
    overwrite(one(BURIED), finished_at=None)  # nobody knows since when
    assert as_json("cancel", "queueapp.note")["changed"] == 6
    assert "queueapp.note: 6 jobs" in capsys.readouterr().err
    assert set(QuerySet(Note).values_list("pk", flat=True)) == {job.pk for job in terminal.later}


def test_who_is_asked_is_told_of_no_more_jobs_than_the_limit_lets_through(monkeypatch, capsys):
    class Terminal(StringIO):
        def isatty(self):
            return True

    one_of_each()
    for words, told in ((["--limit", "2"], "queueapp.note: 2 jobs"), ([], "queueapp.note: 5 jobs")):
        monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
        assert refused("cancel", "--all", *words) == "nothing was changed"
        assert told in capsys.readouterr().err


def test_who_has_closed_its_input_is_told_to_say_yes(monkeypatch):
    one_of_each()
    monkeypatch.setattr(sys, "stdin", None)  # as Python has it after `<&-`
    assert "here is no terminal: nothing was changed" in refused("cancel", "--all")
    assert "needs a terminal" in refused("top")


@pytest.mark.process
def test_ctrl_c_at_the_question_changes_nothing(database_url):
    one_of_each()
    with at_terminal(database_url, "dbqueue", "cancel", "--all") as terminal:
        terminal.wait_for("[y/N]")
        terminal.interrupt()
        assert terminal.end() == 130
        assert "interrupted: the rest is as it was" in terminal.text
        assert "Traceback" not in terminal.text
    assert QuerySet(Note).count() == len(Status)
