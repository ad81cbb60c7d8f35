"""What a call with the dedup key of a waiting job does to that: keep, replace, debounce."""

from datetime import timedelta
from functools import partial

import pytest
from django.core.exceptions import ValidationError
from django.db import DEFAULT_DB_ALIAS, connection, connections, transaction
from django.db.models import Value
from django.utils import timezone

from django_dbqueue.fields import DbNow
from django_dbqueue.lifecycle.execute import unlocked_keys
from django_dbqueue.lifecycle.twins import renew
from django_dbqueue.models import enqueued
from django_dbqueue.states import Status
from tests.kit.bounds import limits
from tests.kit.jobs import claim_one, fresh, in_thread, overwrite, start_all, table
from tests.lifecycle.test_keys import read_what_was
from tests.queueapp.models import Kept, Note, Shared

pytestmark = pytest.mark.usefixtures("db_rows")


def ask(model=Note, **columns):
    return model.objects.enqueue(dedup_key="photo:7", **columns)


def replace(model=Note, **columns):
    return ask(model, on_duplicate="replace", **columns)


def due_in(job):
    """Seconds from now, by the database's clock."""
    row = type(job).objects.annotate(now=DbNow()).get(pk=job.pk)
    return (row.retry_at - row.now).total_seconds()


def test_the_columns_of_the_new_one_are_written_into_the_one_that_waits():
    first, _ = ask(text="first", priority=7)
    answer = replace(text="second", seconds=2)
    row = fresh(first)
    assert (answer.job.pk, answer.created, answer.outcome) == (first.pk, False, "replaced")
    assert (row.text, row.seconds, row.priority) == ("second", 2, 7)
    assert (row.status, row.created_at) == (Status.READY, first.created_at)
    assert (answer.job.text, Note.objects.count()) == ("second", 1)


def test_the_answer_says_what_happened():
    assert ask().outcome == "created"
    job, created = ask()
    assert (ask().outcome, created) == ("kept", False)
    assert Note.objects.enqueue().outcome == "created"
    assert job.pk


def test_a_delay_is_replaced_too():
    job, _ = ask()
    replace(delay=60)
    assert fresh(job).status == Status.DELAYED
    assert due_in(job) == pytest.approx(60, abs=5)
    replace(text="its time stays")
    assert due_in(job) == pytest.approx(60, abs=5)


def test_a_claimed_job_is_not_changed_and_another_one_is_made():
    ask(text="first")
    job = claim_one()
    assert replace(text="second").outcome == "created"
    assert fresh(job).text == "first"


def test_a_claimed_job_that_keeps_its_key_until_it_is_done_is_kept_as_it_is():
    ask(Kept)
    job = claim_one(Kept)
    answer = replace(Kept, priority=3)
    assert (answer.created, answer.outcome) == (False, "kept")
    assert fresh(job).priority == 1024
    job.release()
    assert replace(Kept, priority=3).outcome == "replaced"


def test_the_concurrency_key_follows_the_columns():
    job, _ = ask(Shared, tenant="a")
    replace(Shared, tenant="b")
    assert (fresh(job).tenant, fresh(job).concurrency_key) == ("b", "b")


def test_the_concurrency_key_stays_with_a_column_that_the_call_does_not_name():
    job, _ = ask(Shared, tenant="a")
    assert replace(Shared, priority=3).outcome == "replaced"
    row = fresh(job)
    assert (row.tenant, row.priority, row.concurrency_key) == ("a", 3, "a")


def test_the_concurrency_key_is_made_of_named_columns_and_of_those_of_the_waiting_one():
    with limits("queueapp.shared", concurrency_key="{tenant}/{log}"):
        job, _ = ask(Shared, tenant="a", log="x")
        replace(Shared, log="y")
    assert fresh(job).concurrency_key == "a/y"


def test_a_concurrency_key_of_its_own_stays():
    job, _ = ask(Shared, tenant="a", concurrency_key="mine")
    replace(Shared, tenant="b")
    assert (fresh(job).tenant, fresh(job).concurrency_key) == ("b", "mine")
    replace(Shared, concurrency_key="yours")
    assert fresh(job).concurrency_key == "yours"


def test_who_names_no_concurrency_key_gets_that_of_the_columns_of_the_waiting_job():
    job, _ = ask(Shared, tenant="a", concurrency_key="mine")
    assert replace(Shared, concurrency_key=None).outcome == "replaced"
    assert (fresh(job).tenant, fresh(job).concurrency_key) == ("a", "a")
    replace(Shared, tenant="b", concurrency_key=None)
    assert (fresh(job).tenant, fresh(job).concurrency_key) == ("b", "b")


@pytest.mark.parametrize("wanted", ["{log[1]}", lambda job: {"b": "B"}[job.tenant]])
def test_a_concurrency_key_of_its_own_stays_where_the_policy_could_make_none(wanted):
    with limits("queueapp.shared", concurrency_key=wanted):
        job, _ = ask(Shared, tenant="a", concurrency_key="mine")
        assert replace(Shared, tenant="b", log="xyz").outcome == "replaced"
    assert (fresh(job).tenant, fresh(job).concurrency_key) == ("b", "mine")


def test_a_concurrency_key_that_columns_make_too_long_is_refused_and_nothing_is_written():
    with limits("queueapp.shared", concurrency_key="{tenant}/{log}"):
        job, _ = ask(Shared, tenant="a" * 50, log="x")
        with pytest.raises(ValidationError, match="concurrency_key has 230 bytes"):
            replace(Shared, log="y" * 179)
    assert fresh(job).log == "x"


@pytest.mark.skipif(connection.vendor == "mysql", reason="keeps locked what it has looked at")
def test_a_claimed_job_is_not_locked_by_a_call_that_does_not_change_it():
    job = Shared.objects.create(tenant="a")
    overwrite(claim_one(Shared), dedup_key="photo:7")
    with transaction.atomic():
        assert replace(Shared, priority=3).outcome == "kept"
        [keys] = start_all(lambda: unlocked_keys(table(Shared), [job.pk]))
        assert keys == [job.pk]


@pytest.fixture
def parked():
    """Its key's two slots are taken."""
    for _ in range(2):
        Shared.objects.create(tenant="a")
    job, _ = ask(Shared, tenant="a")
    assert len(Shared.objects.claim(limit=10)) == 2
    assert fresh(job).waits_for_key
    return job


@pytest.mark.parametrize("tenant", ["", "b"])
@pytest.mark.parametrize("later", [{}, {"debounce": 30}])
def test_one_that_waits_for_its_key_does_not_when_it_gets_none_or_another(parked, tenant, later):
    overwrite(parked, attempts=len(later))  # one that was tried is not moved on
    assert replace(Shared, tenant=tenant, **later).outcome == "replaced"
    assert claim_one(Shared).pk == parked.pk


def test_one_that_waits_for_its_key_is_parked_again_when_it_keeps_it(parked):
    assert replace(Shared, tenant="a", priority=3).outcome == "replaced"
    assert Shared.objects.claim(limit=10) == []
    assert fresh(parked).waits_for_key


@pytest.mark.parametrize(
    "later", [{"delay": 30}, {"debounce": 30}, {"retry_at": timezone.now() + timedelta(days=1)}]
)
def test_one_that_waits_for_its_key_waits_for_the_time_of_the_new_one(parked, later):
    replace(Shared, tenant="", **later)
    row = fresh(parked)
    assert (row.status, row.concurrency_key) == (Status.DELAYED, None)
    assert due_in(parked) > 20


def test_every_call_moves_the_time_on():
    job, _ = ask(debounce=30)
    assert fresh(job).status == Status.DELAYED
    overwrite(job, retry_at=job.created_at)
    assert ask(debounce=30).outcome == "debounced"
    assert due_in(job) == pytest.approx(30, abs=5)


def test_no_later_than_the_longest_wait_after_the_first_call():
    job, _ = ask(debounce=30, max_wait=60)
    overwrite(job, created_at=DbNow(plus=-50))
    ask(debounce=30, max_wait=60)
    assert due_in(job) == pytest.approx(10, abs=5)
    overwrite(job, created_at=DbNow(plus=-70), status=Status.READY, retry_at=None)
    ask(debounce=30, max_wait=60)
    assert fresh(job).status == Status.READY


def test_a_ready_one_waits_once_more():
    job, _ = ask()
    ask(debounce=30)
    assert fresh(job).status == Status.DELAYED
    assert due_in(job) == pytest.approx(30, abs=5)


def test_the_pause_before_a_retry_is_not_moved():
    ask(Kept)
    job = claim_one(Kept)
    job.fail("no")
    overwrite(job, retry_at=DbNow(plus=500))
    ask(Kept, debounce=5, max_wait=5)
    assert due_in(job) == pytest.approx(500, abs=5)


def test_debounced_and_replaced_at_once():
    job, _ = ask(text="first", debounce=5)
    assert replace(text="second", debounce=30).outcome == "replaced"
    assert fresh(job).text == "second"
    assert due_in(job) == pytest.approx(30, abs=5)


def test_one_that_is_claimed_right_after_it_was_replaced_is_answered(monkeypatch):
    def renew_and_claim(*given):
        found = renew(*given)
        claim_one()
        return found

    job, _ = ask(text="first")
    monkeypatch.setattr(enqueued, "renew", renew_and_claim)
    answer = replace(text="second")
    assert (answer.job, answer.created, answer.outcome) == (job, False, "replaced")
    assert (fresh(job).text, fresh(job).status) == ("second", Status.CLAIMED)


@pytest.mark.skipif(connection.vendor != "mysql", reason="an error of the others, or never so")
@pytest.mark.parametrize(
    ("options", "outcome"),
    [
        ({"text": "second", "on_duplicate": "replace"}, "replaced"),
        ({"debounce": 50}, "debounced"),
        ({"text": "first", "on_duplicate": "replace"}, "replaced"),
    ],
    ids=["replace", "debounce", "as it was"],
)
def test_one_that_is_younger_than_the_snapshot_is_changed_too(options, outcome):
    def ask_late():
        read_what_was()
        with transaction.atomic():
            assert not Note.objects.exists()
            return in_thread(partial(ask, text="first", seconds=3)), ask(**options)

    [(first, second)] = start_all(ask_late)
    assert (second.job, second.created, second.outcome) == (first.job, False, outcome)
    row = fresh(first.job)
    assert (row.text, row.seconds) == (options.get("text", "first"), 3)
    assert (second.job.text, second.job.retry_at) == (row.text, row.retry_at)
    assert (row.retry_at is not None) == ("debounce" in options)


@pytest.mark.skipif(connection.vendor != "mysql", reason="an error of the others, or never so")
@pytest.mark.parametrize(
    ("options", "outcome"),
    [({"on_duplicate": "replace"}, "replaced"), ({"debounce": 50}, "debounced"), ({}, "kept")],
    ids=["replace", "debounce", "keep"],
)
def test_one_that_has_taken_the_place_of_another_since_the_snapshot_is_meant(options, outcome):
    ask(text="first")

    def claim_and_ask():
        claim_one()
        return ask(text="second").job

    def ask_late():
        read_what_was()
        vars(connections[DEFAULT_DB_ALIAS])["isolation_level"] = "repeatable read"
        with transaction.atomic():
            assert Note.objects.count() == 1
            return in_thread(claim_and_ask), ask(text="third", **options)

    [(second, answer)] = start_all(ask_late)
    assert (answer.job, answer.created, answer.outcome) == (second, False, outcome)
    row = fresh(second)
    assert row.text == ("third" if outcome == "replaced" else "second")
    assert (row.retry_at is not None) == (outcome == "debounced")
    assert (answer.job.text, answer.job.retry_at) == (row.text, row.retry_at)


def test_concurrent_producers_leave_one_job_with_the_columns_of_one_of_them():
    calls = [lambda n=n: replace(text=str(n), seconds=n, debounce=20) for n in range(8)]
    answers = start_all(*calls)
    assert sum(answer.created for answer in answers) == 1
    [row] = Note.objects.all()
    assert row.text == str(int(row.seconds))
    assert sum(answer.outcome == "replaced" for answer in answers) == 7


def test_concurrent_producers_leave_one_job_with_the_key_of_its_columns():
    with limits("queueapp.shared", concurrency_key="{tenant}/{log}"):
        job, _ = ask(Shared, tenant="a", log="a")
        calls = [{name: text} for name in ("tenant", "log") for text in ("b", "c", "d")]
        start_all(*(partial(replace, Shared, **columns) for columns in calls))
    row = fresh(job)
    assert row.concurrency_key == f"{row.tenant}/{row.log}"
    assert "a" not in (row.tenant, row.log)


def test_a_rollback_takes_the_change_back():
    job, _ = ask(text="first")
    with transaction.atomic():
        replace(text="second")
        transaction.set_rollback(True)
    assert fresh(job).text == "first"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"on_duplicate": "merge"}, "on_duplicate"),
        ({"debounce": 0}, "debounce"),
        ({"debounce": -1}, "debounce"),
        ({"debounce": 5, "delay": 3}, "debounce"),
        ({"debounce": 5, "max_wait": 3}, "max_wait"),
        ({"max_wait": 3}, "max_wait"),
        ({"debounce": 5, "max_wait": "x"}, "max_wait"),
        ({"on_duplicate": "replace", "priority": -1}, "priority"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name_and_nothing_is_written(options, field):
    with pytest.raises(ValidationError) as caught:
        ask(**options)
    assert field in caught.value.message_dict
    assert not Note.objects.exists()


@pytest.mark.parametrize("options", [{"on_duplicate": "replace"}, {"debounce": 5}])
def test_without_a_key_there_is_nothing_to_replace(options):
    with pytest.raises(ValidationError, match="dedup_key"):
        Note.objects.enqueue(**options)


def test_an_expression_replaces_nothing():
    job, _ = ask(seconds=1)
    with pytest.raises(ValidationError, match="seconds"):
        replace(seconds=Value(2))
    assert fresh(job).seconds == 1
