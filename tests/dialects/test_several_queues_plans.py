"""The plans of a claim from several queues, and of a look at their first jobs: 200,000 jobs, half
of them done, nearly all others in one queue; with --full five times as many."""

import pytest
from django.db import connection
from django.db.models import QuerySet
from django.utils import timezone

from django_dbqueue.lifecycle.backlog import head_ages
from django_dbqueue.lifecycle.claim import claim_of_several
from django_dbqueue.states import Status
from django_dbqueue.worker.joint_claim import QUEUES_MAX
from tests.kit.connections import truncate
from tests.kit.copied_rows import copy_rows, last_key
from tests.kit.jobs import table
from tests.kit.query_plans import big_rows, captured, complaints, steps, update_statistics
from tests.kit.waiting import wait_until
from tests.queueapp.models import Big

pytestmark = pytest.mark.proof

BIG = Big._meta.db_table
SMALL = [f"q{number:02}" for number in range(QUEUES_MAX - 1)]
LARGE = "a queue of very many jobs"
EACH = 3  # jobs of a small queue


@pytest.fixture(scope="module", autouse=True)
def _big_table(request, django_db_setup, django_db_blocker):
    with django_db_blocker.unblock():
        fill(big_rows(full=request.config.getoption("--full")))
        yield
        truncate(BIG)


def fill(rows):
    now = timezone.now()
    done = [Big(status=Status.DONE, finished_at=now, retry_at=now) for _ in range(500)]
    QuerySet[Big](Big).bulk_create(done + [Big(queue=LARGE) for _ in range(500)])
    last = last_key(Big)
    for _ in range(rows // 1000 - 1):
        copy_rows(Big, f"id <= {last}", 1000)
    update_statistics(BIG)


@pytest.fixture(autouse=True)
def small(_big_table, django_db_blocker):
    """Queues that the planner has never heard of."""
    table(Big).dialect.keep_to_indexes()
    Big.objects.enqueue_many({"queue": name} for name in SMALL for _ in range(EACH))
    yield
    QuerySet(Big).filter(queue__in=SMALL).delete()
    connection.close()


@pytest.mark.parametrize("limit", [1, 50, 500])
@pytest.mark.parametrize("queues", [[*SMALL, LARGE], [LARGE, *SMALL], SMALL[:2]])
def test_it_reads_by_the_index_and_writes_by_key(queues, limit):
    with captured(BIG) as statements:
        found = claim_of_several(table(Big), queues, limit, "plan.1")
    most = limit if LARGE in queues else min(limit, EACH * len(queues))
    assert sum(map(len, found.values())) == most
    assert [text for one in statements for text in complaints(one, BIG)] == []


@pytest.mark.parametrize("limit", [1, 50, 500])
def test_it_reads_a_few_entries_for_each_queue_and_job(limit):
    def work():
        claim_of_several(table(Big), [*SMALL, LARGE], limit, "plan.2")

    # Tens of instructions on SQLite, of which a row that is written takes hundreds.
    of_one = 100 if connection.vendor == "sqlite" else 12
    assert steps(work, BIG) <= of_one * (len(SMALL) + 2 * limit)


def test_the_first_jobs_of_many_queues_are_found_by_one_entry_of_the_index_each():
    names = [*SMALL, LARGE]
    with captured(BIG) as statements:
        assert head_ages(table(Big), names).keys() == {*names}
    assert [text for one in statements for text in complaints(one, BIG)] == []
    most = (150 if connection.vendor == "sqlite" else 5) * len(names)
    # On PostgreSQL entries of deleted rows are passed over only once no snapshot sees these rows.
    wait_until(lambda: steps(lambda: head_ages(table(Big), names), BIG) <= most)
