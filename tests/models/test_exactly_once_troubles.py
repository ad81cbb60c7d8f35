"""Exactly once although the database gives up a transaction, or its answer is lost."""

from dataclasses import replace

import pytest
from django.db import InterfaceError, connection

from django_dbqueue.dialects.types import RowsLocked
from django_dbqueue.exceptions import ClaimLost
from django_dbqueue.models.exactly_once import TRIES, ExactlyOnceRun
from django_dbqueue.states import Status
from django_dbqueue.worker.buffer import Item
from django_dbqueue.worker.exactly_once import WorkerExactlyOnceRun
from django_dbqueue.worker.runner import run_user_code
from tests.kit.jobs import claimed, fresh, steal, table
from tests.queueapp.models import Batch, Effect, Transfer

pytestmark = pytest.mark.usefixtures("db_rows")

KILL_ME = {
    "postgresql": "SELECT pg_terminate_backend(pg_backend_pid())",
    "mysql": "KILL CONNECTION_ID()",
}


class Runs:
    """A job whose run writes an effect, changes its columns, and then has trouble at first."""

    def __init__(self, *troubles):
        self.job = claimed(Transfer, data={"runs": []})
        self.troubles = list(troubles)
        self.count = 0

    def work(self):
        self.count += 1
        self.job.data["runs"].append(self.count)
        Effect.objects.create(job=self.job.pk)
        self.job.save()
        if self.troubles:
            self.troubles.pop(0)()

    def run(self, kind=WorkerExactlyOnceRun):
        kind(table(Transfer), self.job, self.work).run()

    def judge(self, runs):
        """It ran so often; what the last run wrote is there, once, and nothing is charged."""
        job = fresh(self.job)
        assert self.count == runs
        assert (job.status, job.attempts, job.errors) == (Status.DONE, 1, [])
        assert job.data == {"runs": [runs]}
        assert list(Effect.objects.values_list("job", flat=True)) == [job.pk]


def give_up():
    raise RowsLocked("as in a deadlock")


@pytest.mark.parametrize("kind", [ExactlyOnceRun, WorkerExactlyOnceRun])
def test_what_the_database_aborts_runs_again_and_is_charged_to_nobody(kind):
    runs = Runs(give_up, give_up)
    runs.run(kind)
    runs.judge(3)


def test_what_the_database_always_aborts_fails_at_last():
    runs = Runs(*[give_up] * TRIES)
    with pytest.raises(RowsLocked):
        runs.run()
    assert (runs.count, Effect.objects.count()) == (TRIES, 0)
    assert fresh(runs.job).status == Status.CLAIMED
    assert runs.job.data == fresh(runs.job).data == {"runs": []}


def test_an_error_of_the_statement_itself_is_no_reason_for_another_run():
    def break_it():
        with connection.cursor() as cursor:
            cursor.execute("SELECT nonsense")

    runs = Runs(break_it)
    with pytest.raises(Exception, match="nonsense"):
        runs.run()
    assert (runs.count, Effect.objects.count()) == (1, 0)


def test_a_lost_connection_runs_it_again():
    if connection.vendor == "sqlite":
        pytest.skip("there is none to lose")

    def lose_connection():
        with connection.cursor() as cursor:
            cursor.execute(KILL_ME[connection.vendor])
            cursor.execute("SELECT 1")

    runs = Runs(lose_connection)
    runs.run()
    runs.judge(2)


@pytest.fixture
def lose_commit(monkeypatch):
    """The next COMMIT gets no answer; it arrives before the connection is lost, or does not."""

    def lose(arrives):
        def commit():
            monkeypatch.undo()
            if arrives:
                connection.connection.commit() if connection.vendor != "sqlite" else real()
            connection.close()
            raise InterfaceError("the answer to COMMIT was lost")

        real = connection._commit  # type: ignore[attr-defined]
        monkeypatch.setattr(connection, "_commit", commit)

    return lose


@pytest.mark.parametrize(("arrives", "runs"), [(True, 1), (False, 2)])
def test_a_commit_without_an_answer_is_judged_by_the_claim(lose_commit, arrives, runs):
    one = Runs(lambda: lose_commit(arrives))
    one.run()
    one.judge(runs)


def test_a_commit_without_an_answer_and_a_lost_claim_are_not_run_again(lose_commit):
    one = Runs(lambda: lose_commit(arrives=False))
    real = one.work

    def work():
        assert one.count == 0
        real()

    one.work = work
    by_worker = WorkerExactlyOnceRun(table(Transfer), one.job, one.work)
    pause_after = by_worker.pause_after

    def stolen_meanwhile(error):
        pause_after(error)
        steal(one.job)
        return 0.0

    by_worker.pause_after = stolen_meanwhile
    with pytest.raises(ClaimLost, match="another owner"):
        by_worker.run()
    assert Effect.objects.count() == 0


def test_ones_own_loop_is_told_of_a_lost_answer(lose_commit):
    one = Runs(lambda: lose_commit(arrives=True))
    with pytest.raises(InterfaceError):
        one.run(ExactlyOnceRun)
    assert fresh(one.job).status == Status.DONE


def test_what_changes_in_place_and_is_no_json_is_read_again_after_a_failed_run():
    runs = Runs(give_up)
    runs.job.action = bytearray(b"no text")
    job, work = runs.job, runs.work
    once = ExactlyOnceRun(table(Transfer), job, lambda: (work(), job.action))
    runs.job.save = lambda: None
    once.run()
    assert job.action == ""


def test_a_transaction_that_was_open_for_long_is_logged(monkeypatch, caplog):
    monkeypatch.setattr("django_dbqueue.models.exactly_once.LASTING", 0)
    with caplog.at_level("WARNING", "django_dbqueue"):
        Runs().run()
    assert "its transaction was open for" in caplog.text


def test_a_batch_is_refused_even_where_the_check_was_silenced():
    jobs = [claimed(Batch), claimed(Batch)]
    one = table(Batch)
    one = replace(one, policy=replace(one.policy, exactly_once=True))
    item = Item(one, jobs[0].claim_owner, jobs, 0.0, 0)
    with pytest.raises(TypeError, match="run_batch"):
        run_user_code(item)
