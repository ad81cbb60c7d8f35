"""The page of one job: why it waits, what has happened, what it holds; and what it keeps back."""

import json
from datetime import UTC, datetime

import pytest
from django.db import connection
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from django_dbqueue.admin.arguments import CHARACTERS_MAX, argument
from django_dbqueue.admin.masking import MASK, is_sensitive, masked
from django_dbqueue.admin.timeline import timeline
from django_dbqueue.exceptions import Bury, Retry
from django_dbqueue.fields import DbNow
from django_dbqueue.lifecycle import reap
from django_dbqueue.lifecycle.table import table_of
from django_dbqueue.models import Worker
from tests.kit.examples import examples
from tests.kit.jobs import fresh, overwrite
from tests.kit.overview import a_worker
from tests.queueapp.models import Kept, Note

pytestmark = pytest.mark.usefixtures("db_rows")
CANARY = "<script>alert(1)</script>"


def page_of(browser, job):
    response = browser.get(f"/admin/queueapp/note/{job.pk}/change/")
    assert response.status_code == 200
    return response.content.decode()


def failed(text="x", action="fail"):
    Note.objects.create(text=text, action=action)
    [job] = Note.objects.claim()
    try:
        job.run()
    except RuntimeError as error:
        job.fail(error, 1.5)
    # It stays delayed for as long as it is looked at.
    QuerySet(Note).filter(pk=job.pk).update(retry_at=DbNow(plus=300))
    return fresh(job)


def test_the_page_of_a_failed_job_tells_its_story(browser):
    page = page_of(browser, failed("the text"))
    for words in (
        "It is retried in",
        ", in 5 min",
        "since attempt 1 of 3 failed (RuntimeError).",
        "Attempt 1 failed",
        "ran 1.5 s",
        "RuntimeError: note the text does not work",
        "in do_fail",
        "Retry due",
        "queueapp_note:",
        'value="kick_selected"',
    ):
        assert words in page, words


def test_an_attempt_has_failed_when_it_ended_not_when_it_began():
    job = failed("the text")
    [error] = job.errors
    overwrite(job, errors=[{**error, "started": "2026-01-05T10:00:00+00:00", "seconds": 3600.0}])
    [told] = [one for one in timeline(fresh(job), True, timezone.now()) if one.kind == "failed"]
    assert told.at == datetime(2026, 1, 5, 11, tzinfo=UTC)


def test_who_may_not_inspect_sees_no_word_of_what_it_holds_or_said(people):
    job = failed("s3cret text")
    page = page_of(people("view_note"), job)
    assert "s3cret" not in page
    assert "does not work" not in page
    assert "do_fail" not in page
    assert "Attempt 1 failed" in page
    assert "queueapp.inspect_note" in page
    assert 'formaction="' not in page
    assert "s3cret text" in page_of(people("view_note", "inspect_note"), job)


def test_everything_that_people_wrote_is_escaped(browser):
    Note.objects.create(text=CANARY, queue=CANARY, dedup_key=CANARY, log=CANARY, action="fail")
    [job] = Note.objects.claim(queue=CANARY, owner=CANARY)
    assert CANARY not in page_of(browser, job)
    job.fail(RuntimeError(CANARY), 1)
    Note.objects.pause(CANARY, reason=CANARY)
    Worker.objects.create(uuid="a" * 32, host=CANARY, pid=1, serves=["queueapp.note"])
    page = page_of(browser, job)
    assert CANARY not in page
    assert page.count("&lt;script&gt;alert(1)") >= 6


ODD = ['"text"', "7", "[7]", '[{"attempt": {"a": 1}, "started": 5, "seconds": "x"}]', "{}", "null"]


@pytest.mark.parametrize("errors", ODD)
def test_errors_that_a_hand_wrote_are_argument(browser, errors):
    job = Note.objects.create()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE queueapp_note SET errors = %s", [errors])
    assert "What has happened" in page_of(browser, job)


def test_the_queries_of_a_page_do_not_grow_with_its_attempts_nor_the_table(browser):
    def queries():
        with CaptureQueriesContext(connection) as captured:
            page_of(browser, job)
        return len(captured)

    job = failed()
    queries()
    few = queries()
    for _ in range(2):
        Note.objects.kick()
        Note.objects.claim()[0].fail(RuntimeError("x"), 1)
    Note.objects.bulk_create([Note() for _ in range(300)])
    assert queries() <= few


def test_a_job_that_vanished_meanwhile_is_no_error_of_the_page(browser):
    job = Note.objects.create()
    Note.objects.cancel()
    assert browser.get(f"/admin/queueapp/note/{job.pk}/change/").status_code == 302


NESTED = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=20,
)


@examples(40)
@given(NESTED, st.sampled_from(["password", "API-Key", "auth_token", "Set-Cookie", "clientSecret"]))
def test_no_secret_survives_however_deep_it_lies(value, name):
    for wrap in (lambda v: {"a": [v]}, lambda v: [[{"b": v}]]):
        secret = {name: {"value": ["t0p-s3cret", value]}, "other": value}
        text = json.dumps(masked(wrap(secret)))
        assert "t0p-s3cret" not in text
        assert MASK in text


def test_what_is_no_secret_is_left_alone():
    plain = {"customer": "Ada", "order": 12345678901234567890, "items": [{"sku": "x"}]}
    assert masked(plain) == plain
    assert "12345678901234567890" in argument("order", plain, ()).value
    assert is_sensitive("shoe_size", more=["shoe-size"])
    assert masked({"shoe size": 1}, ["shoe-size"]) == {"shoe size": MASK}


def test_long_and_binary_values_are_cut_and_named():
    cut = argument("a", "x" * (CHARACTERS_MAX + 5), ())
    assert (len(cut.value), cut.note) == (CHARACTERS_MAX, "the first 20,000 of 20,005 characters")
    assert "2" in argument("a", memoryview(b"12"), ()).note
    deep = value = []
    for _ in range(2000):
        value.append([])
        value = value[0]
    assert "..." in argument("a", deep, ()).value


def test_the_timeline_is_that_of_its_state():
    job = failed()
    kinds = [event.kind for event in timeline(job, True, timezone.now())]
    assert kinds == ["enqueued", "failed", "next"]
    Note.objects.kick()
    Note.objects.claim()[0].complete()
    assert [e.kind for e in timeline(fresh(job), True, timezone.now())] == [
        "enqueued",
        "failed",
        "kicked",
        "done",
    ]


def story(job):
    return [event.title for event in timeline(fresh(job), True, timezone.now())]


def test_attempts_say_how_they_ended_and_what_left_no_word():
    job = Note.objects.create()
    Note.objects.claim()[0].fail(Retry(300, "later"))
    Note.objects.kick()
    Note.objects.claim(owner=f"{'ab' * 16}.1-1")
    reap.reap_owner(table_of(Note, "default"), "ab", {str(job.pk): reap.Trace()})
    Note.objects.claim(owner=f"{'cd' * 16}.1-1")
    reap.reap_owner(table_of(Note, "default"), "cd")
    Note.objects.claim()[0].fail(Bury("no"))
    assert story(job) == [
        "Enqueued",
        "Attempt 1 asked for another one",
        "Retried by a person",
        "Attempt 1: its worker died with it; not charged",
        "Attempt 1 asked to be buried",
        "Its worker died with it: 1 of 3 times",
        "Lost with its whole worker: 1 time, not charged",
        "Buried",
    ]
    Note.objects.kick()
    assert story(job)[-1] == "Retried by a person"
    QuerySet(Note).filter(pk=job.pk).update(attempts=3, errors=[], status=3)
    assert story(job) == ["Enqueued", "Attempts that left no word: 3", "Retry due"]
    QuerySet(Note).filter(pk=job.pk).update(errors=[{"attempt": n} for n in range(1, 11)])
    assert "Of its failures the last 10 are kept" in story(job)


def test_a_claim_an_end_and_what_comes_next_are_on_the_timeline():
    job = Kept.objects.create(expires_at=DbNow(plus=600))
    assert story(job) == ["Enqueued", "Expires"]
    [held] = Kept.objects.claim()
    assert story(job) == ["Enqueued", "Claimed", "The claim ends"]
    held.complete()
    assert story(job) == ["Enqueued", "Done", "Leaves the table"]


def test_times_are_for_programs_and_their_ages_for_people():
    job = Note.objects.enqueue(delay=90)[0]
    QuerySet(Note).filter(pk=job.pk).update(created_at=DbNow(plus=-7200))
    now = timezone.now()
    enqueued, due = timeline(fresh(job), False, now)
    assert enqueued.age == "2 h ago"
    assert due.age in {"in 1 min", "in 2 min"}
    assert str(due.when).startswith('<time datetime="20')


def test_the_page_of_a_claimed_job_has_its_buttons_by_permission(people):
    job = Note.objects.create()
    Note.objects.claim()
    buttons = {"retry": [], "bury": ["bury"], "release": ["release"], "delete": ["cancel"]}
    for permission, names in buttons.items():
        page = page_of(people("view_note", f"{permission}_note"), job)
        shown = [
            one for one in ("kick", "bury", "release", "cancel") if f'"{one}_selected"' in page
        ]
        assert shown == names


@pytest.mark.parametrize("may_see", [True, False])
def test_workers_are_named_only_to_those_who_may_see_them(people, may_see):
    browser = people("view_note", *["view_worker"] * may_see)
    claimed, ready = Note.objects.create(), Note.objects.create()
    holder = a_worker(host="web1")
    a_worker(host="web2", name="boiler", trouble="disk full")
    Note.objects.claim(owner=f"{holder.uuid}.1-1")
    for job, names in ((claimed, ("web1",)), (ready, ("web1", "web2", "boiler"))):
        page = page_of(browser, job)
        assert [name in page for name in names] == [may_see] * len(names)
    assert "disk full" in page
