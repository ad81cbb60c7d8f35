"""What a run leaves in its row is written with its outcome, in the same statement."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_dbqueue.checks.tables import check_table
from django_dbqueue.exceptions import ClaimLost
from django_dbqueue.lifecycle.policy import policy_of
from django_dbqueue.states import Status
from tests.kit.inline_worker import work_off
from tests.kit.jobs import fresh
from tests.queueapp.models import Answering

pytestmark = pytest.mark.usefixtures("db_rows")

ENDS = {
    "return": Status.DONE,
    "complete": Status.DONE,
    "raise": Status.DELAYED,
    "release": Status.DELAYED,
    "bury": Status.BURIED,
}


def claimed(action=""):
    Answering.objects.create(action=action)
    [job] = Answering.objects.claim()
    return job


def said(job):
    return fresh(job).answer.get("said")


def test_a_worker_writes_the_results_whatever_becomes_of_the_job():
    jobs = {action: Answering.objects.create(action=action) for action in ENDS}
    work_off("queueapp.answering")
    assert {action: fresh(job).status for action, job in jobs.items()} == ENDS
    assert {action: said(job) for action, job in jobs.items()} == {
        action: [action, "ü", 1] for action in ENDS
    }
    assert {fresh(job).note for job in jobs.values()} == {"n"}


@pytest.mark.parametrize(
    ("action", "why"),
    [
        ("nonsense", "not JSON serializable"),
        ("nan", "not JSON compliant"),
        ("none", "note must not be None"),
    ],
)
def test_results_that_their_column_cannot_hold_are_a_failed_attempt(action, why):
    job = Answering.objects.create(action=action)
    work_off("queueapp.answering")
    assert fresh(job).status == Status.DELAYED
    assert why in fresh(job).last_error
    assert (fresh(job).answer, fresh(job).note) == ({}, "")


@pytest.mark.parametrize("verb", ["complete", "release", "bury", "fail"])
def test_in_ones_own_loop_one_update_ends_the_claim_and_writes_the_results(verb):
    job = claimed()
    job.answer = {"said": verb}
    with CaptureQueriesContext(
        connection,
    ) as captured:
        getattr(job, verb)(*(["no"] if verb == "fail" else []))
    assert len([q for q in captured if q["sql"].startswith("UPDATE")]) == 1
    assert said(job) == verb


def test_who_has_lost_its_claim_leaves_no_results():
    job = claimed()
    Answering.objects.all().release()
    job.answer = {"said": "late"}
    with pytest.raises(ClaimLost):
        job.complete()
    assert said(job) is None


def test_a_column_that_was_not_loaded_is_left_alone():
    job = claimed()
    job.note = "kept"
    job.save(update_fields=["note"])
    del job.note
    job.complete()
    assert fresh(job).note == "kept"


@pytest.mark.parametrize(
    ("results", "problem"),
    [
        (("anser",), "'anser' is no column"),
        (("errors",), "'errors' is no column"),
        ("answer", "must be a tuple"),
        ((1,), "must be a tuple"),
    ],
)
def test_results_must_be_columns_of_the_tables_own(monkeypatch, results, problem):
    monkeypatch.setattr(Answering.Policy, "results", results)
    policy_of.cache_clear()
    try:
        assert any(problem in str(message.msg) for message in check_table(Answering))
    finally:
        monkeypatch.undo()
        policy_of.cache_clear()
    assert check_table(Answering) == []
