"""The errors column: what is kept of an exception, and how much."""

from datetime import UTC, datetime

import pytest

from django_dbqueue.diagnose import explain
from django_dbqueue.exceptions import Bury, Retry
from django_dbqueue.lifecycle.errors import MAX_TRACEBACK_BYTES, entry
from tests.kit.inline_worker import work_off
from tests.kit.jobs import claim_one, claimed, fresh, overwrite, table
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no words")


def raised(error):
    try:
        raise error
    except Exception as caught:
        return caught


def test_an_entry_tells_what_happened():
    job = claimed()
    job.fail(raised(ValueError("no such photo")), seconds=1.23456)
    [error] = fresh(job).errors
    assert error["attempt"] == 1
    assert error["owner"] == job.owner
    assert error["seconds"] == 1.235
    assert (error["exception"], error["message"]) == ("ValueError", "no such photo")
    assert "raise error" in error["traceback"]
    assert error["host"]


def test_an_entry_knows_when_the_attempt_began():
    job = claimed()
    job.fail("no", seconds=3600)
    [error] = fresh(job).errors
    ago = datetime.now(UTC) - datetime.fromisoformat(error["started"])
    assert ago.total_seconds() == pytest.approx(3600, abs=5)


def test_the_last_ten_are_kept():
    Note.objects.create()
    for number in range(13):
        job = claim_one()
        overwrite(job, attempts=1)
        job.attempts = 1
        job.fail(f"failure {number}")
        overwrite(job, status=0, retry_at=None)
    errors = fresh(job).errors
    assert [error["message"] for error in errors] == [f"failure {n}" for n in range(3, 13)]


def test_a_traceback_keeps_its_last_8_kib():
    def deep(levels):
        if levels:
            deep(levels - 1)
        else:
            other(150)

    def other(levels):
        # Two functions in turn: Python folds repeated lines.
        if levels % 2:
            return [other(levels - 1)]
        if levels:
            return other(levels - 1)
        raise RuntimeError("ü" * 900)

    with pytest.raises(RuntimeError) as caught:
        deep(50)
    job = claimed()
    job.fail(caught.value)
    text = fresh(job).errors[0]["traceback"]
    assert MAX_TRACEBACK_BYTES - 4 <= len(text.encode()) <= MAX_TRACEBACK_BYTES
    assert text.endswith("ü\n")


def test_no_local_variables_are_kept():
    password = "hunter" + str(2)
    assert "hunter2" not in str(entry(raised(RuntimeError("no")), attempt=1, owner=None))
    assert password


@pytest.mark.parametrize("text", ["nul \0 nul", "half \ud800 pair", "𝄞 ß 漢 \x1b[31m", "'\"\\%s"])
def test_every_text_is_stored(text):
    job = claimed()
    job.fail(raised(RuntimeError(text)))
    message = fresh(job).errors[0]["message"]
    assert message.replace("\\0", "\0").replace("\\ud800", "\ud800") == text


def test_a_long_message_is_cut():
    job = claimed()
    job.fail("x" * 100_000)
    assert len(fresh(job).errors[0]["message"]) == 1000


def test_an_exception_without_words_is_stored_too():
    job = claimed()
    job.fail(raised(Unprintable()))
    assert fresh(job).errors[0]["exception"] == "Unprintable"


# Made where nobody knows the module's name, it has none.
Nameless = eval("type('Nameless', (Exception,), {})", {})


@pytest.mark.parametrize("cause", [None, Nameless("before")])
def test_an_exception_whose_class_cannot_be_named_is_recorded_like_any_other(cause):
    job = claimed()
    error = raised(Nameless("no") if cause is None else ValueError("no"))
    error.__cause__ = cause
    job.fail(error)
    [found] = fresh(job).errors
    assert (found["exception"], found["message"]) == (type(error).__name__, "no")
    assert "raise error" in found["traceback"]


def test_of_a_very_long_message_the_log_has_the_beginning_and_how_long_it_is():
    Note.objects.create(action="fail", text="x" * 100_000)
    [line] = work_off("queueapp.note", "--tries", "1").told("job.failed")
    assert len(line["message"]) < 2000
    assert "100,0" in line["message"]


@pytest.mark.parametrize(
    "verb", [Retry(60, "come back", of=OSError("no")), Bury("enough", OSError("no"))]
)
def test_an_error_that_a_verb_is_raised_for_is_recorded_with_the_reason(verb):
    job = claimed()
    job.fail(verb)
    [kept] = fresh(job).errors
    assert (kept["exception"], kept["class"], kept["message"]) == (
        "OSError",
        "builtins.OSError",
        "no",
    )
    assert kept["reason"] == str(verb)


def test_it_is_said_why_a_job_was_buried_before_its_attempts_were_used_up():
    job = claimed()
    job.fail(Bury("OSError is not retried", of=OSError("no")))
    assert "buried a moment ago: OSError is not retried." in str(explain(table(), job.pk))
