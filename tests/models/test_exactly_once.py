"""Exactly-once effects: a job's run, what it writes and its completion happen together or not."""

import re
import signal
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection, transaction
from django.utils import timezone

from django_dbqueue.exceptions import ClaimLost, Undone
from django_dbqueue.states import Status
from tests.kit.inline_worker import work_off
from tests.kit.jobs import claim_one, claimed, fresh, overwrite, steal
from tests.kit.processes import wait_for_lines, worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Effect, Fleeing, Recited, Transfer

pytestmark = pytest.mark.usefixtures("db_rows")

FAST = {"DBQUEUE_BEAT_INTERVAL": "0.2", "DBQUEUE_WORKER_TIMEOUT": "1"}


def effects():
    return sorted(Effect.objects.values_list("job", flat=True))


def test_a_completed_job_has_its_effect():
    jobs = [Transfer.objects.create(), Fleeing.objects.create(), Recited.objects.create()]
    saved = Transfer.objects.create(action="save")
    work_off("queueapp.transfer", "queueapp.fleeing", "queueapp.recited")
    assert effects() == sorted(job.pk for job in [*jobs, saved])
    assert (fresh(saved).data, fresh(saved).attempts) == ({"saved": True}, 1)
    assert not Fleeing.objects.exists()
    for job in (jobs[0], jobs[2], saved):
        assert fresh(job).status == Status.DONE


FAILURES = {
    "fail": "RuntimeError: it does not work",
    "retry": "asked to be retried",
    "bury": "not this one",
    "delete": "Undone: .*deleted its row",
    "complete": "Undone: .*its transaction ends it",
    "go_on": "TransactionManagementError",
    "set_rollback": "TransactionManagementError",
    "take_over": "TransactionManagementError",
    "roll_back": "Error: .*(?i:savepoint)",
    "commit": "Error: .*(?i:savepoint)",
}


def test_what_a_failed_run_wrote_is_undone_and_the_attempt_recorded():
    jobs = [Transfer.objects.create(action=action, data={"kept": [1]}) for action in FAILURES]
    work_off("queueapp.transfer")
    for job in map(fresh, jobs):
        status = Status.BURIED if job.action == "bury" else Status.DELAYED
        assert (job.action, job.status, job.attempts) == (job.action, status, 1)
        [error] = job.errors
        assert re.search(FAILURES[job.action], f"{error['exception']}: {error['message']}")
        assert job.data == {"kept": [1]}
    # Whoever commits by himself, past Django, has committed.
    assert effects() == [job.pk for job in jobs if job.action == "commit"]


def test_a_failed_coroutine_leaves_nothing():
    job = Recited.objects.create(fails=True)
    work_off("queueapp.recited")
    assert (fresh(job).status, effects()) == (Status.BURIED, [])


def test_what_follows_the_commit_may_fail_without_a_second_run():
    job = Transfer.objects.create(action="break_hook")
    assert "not what was to follow" in work_off("queueapp.transfer")
    assert (fresh(job).status, fresh(job).errors, effects()) == (Status.DONE, [], [job.pk])


def test_a_killed_job_has_left_nothing_and_runs_again(database_url):
    job = Transfer.objects.create(action="kill")
    with worker(database_url, "queueapp.Transfer", "--stop-when-empty") as process:
        assert process.end() == 0, process.stderr
    assert (fresh(job).status, fresh(job).crashes, effects()) == (Status.DONE, 1, [job.pk])


@pytest.mark.skipif(connection.vendor == "sqlite", reason="its transaction locks all others out")
def test_a_zombie_writes_no_effect(database_url, log):
    """It holds its transaction open while the job is taken from it and done by another."""
    job = Transfer.objects.create(action="wait", log=log)
    with worker(database_url, "queueapp.Transfer", **FAST) as zombie:
        wait_for_lines(log, 1)
        zombie.freeze()
        with worker(database_url, "queueapp.Transfer", **FAST) as heir:
            wait_for_lines(log, 2)
            zombie.send_group(signal.SIGCONT)
            Path(f"{log}.go").touch()
            wait_until(lambda: fresh(job).status == Status.DONE)
            wait_until(lambda: "ClaimLost" in zombie.stderr + heir.stderr)
    assert effects() == [job.pk]


# One's own loop.


def test_ones_own_loop_completes_with_the_effects():
    job = claimed(Transfer)
    job.run_exactly_once()
    assert (fresh(job).status, effects()) == (Status.DONE, [job.pk])
    with pytest.raises(ClaimLost):
        job.run_exactly_once()


def test_a_loop_of_ones_own_finishes_a_job_that_has_expired_without_a_run():
    job = Transfer.objects.create(expires_at=timezone.now() - timedelta(hours=1))
    claim = claim_one(Transfer)
    claim.run_exactly_once()
    assert (effects(), fresh(job).state, fresh(job).attempts) == ([], "expired", 0)
    assert not claim.holds_claim()


def test_a_job_that_has_expired_is_refused_inside_a_transaction_as_others_are():
    Transfer.objects.create(expires_at=timezone.now() - timedelta(hours=1))
    claim = claim_one(Transfer)
    with pytest.raises(RuntimeError, match="durable"), transaction.atomic():
        claim.run_exactly_once()
    assert claim.holds_claim()
    claim.run_exactly_once()
    assert fresh(claim).state == "expired"


def test_a_job_that_has_expired_and_is_anothers_by_now_is_left_to_that_one():
    job = Transfer.objects.create(expires_at=timezone.now() - timedelta(hours=1))
    claim = claim_one(Transfer)
    steal(job)
    with pytest.raises(ClaimLost):
        claim.run_exactly_once()
    assert (effects(), fresh(job).status) == ([], Status.CLAIMED)


def test_ones_own_loop_keeps_the_claim_of_a_job_that_failed():
    job = claimed(Transfer, action="fail", data={"kept": [1]})
    with pytest.raises(RuntimeError) as caught:
        job.run_exactly_once()
    assert (effects(), job.data) == ([], {"kept": [1]})
    job.fail(caught.value)
    assert fresh(job).errors[0]["message"] == "it does not work"


def test_a_stolen_job_writes_no_effect():
    job = claimed(Transfer)
    steal(job)
    with pytest.raises(ClaimLost):
        job.run_exactly_once()
    assert (effects(), fresh(job).status) == ([], Status.CLAIMED)


@pytest.mark.parametrize("model", [Transfer, Fleeing])
def test_a_deleted_job_writes_no_effect(model):
    job = claimed(model)
    type(job).objects.filter(pk=job.pk).cancel()
    with pytest.raises(ClaimLost, match="deleted"):
        job.run_exactly_once()
    assert effects() == []


def test_a_job_that_is_done_already_writes_no_second_effect():
    """As where a commit's answer was lost, and the commit arrived after all."""
    job = claimed(Transfer)
    overwrite(job, status=Status.DONE)
    job.run_exactly_once()
    assert (effects(), fresh(job).status) == ([], Status.DONE)


def test_it_cannot_be_part_of_a_longer_transaction():
    job = claimed(Transfer)
    with pytest.raises(RuntimeError, match="durable"), transaction.atomic():
        job.run_exactly_once()
    assert effects() == []


@pytest.mark.parametrize("verb", ["complete", "release", "bury"])
def test_its_run_cannot_end_the_claim(verb):
    job = claimed(Transfer)
    job.run = lambda: getattr(Transfer, verb)(job)
    with pytest.raises(Undone):
        job.run_exactly_once()
    job.release()
    assert claim_one(Transfer).attempts == 1
