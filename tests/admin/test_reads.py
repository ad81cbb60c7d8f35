"""No page of the admin reads more of a large table than a bounded part, however skewed it is.

DBQUEUE_TEST_ROWS sets the number of finished jobs.
"""

import os
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import QuerySet
from django.test import Client
from django.utils import timezone

from django_dbqueue.operate import walking
from django_dbqueue.operate.keyset import keyset_of
from django_dbqueue.operate.orders import in_state, of_keys
from django_dbqueue.states import Status
from tests.kit.admin_lists import NOTES, text_of
from tests.kit.connections import is_mysql, truncate
from tests.kit.copied_rows import copy_rows
from tests.kit.query_plans import steps, update_statistics
from tests.queueapp.models import Kept, Note

pytestmark = pytest.mark.each_database

DONE = int(os.environ.get("DBQUEUE_TEST_ROWS", "80000"))
OTHERS = 20_000  # jobs of each other state: reading them all goes beyond any bound
SEED = 1_000
RARE = 20  # jobs of each state, the oldest ones
TABLE = Note._meta.db_table
MOVE = {Status.CLAIMED, Status.DELAYED}

QUERIES = ["?", *(f"?state={status.value}" for status in Status)]
FILTERS = (
    *("", "&queue=default", "&queue=rare", "&dedup_key=rare", "&before=[]"),
    *("&created=24h", "&queue=rare&created=24h", "&queue=default&created=24h"),
)
LISTS = [f"{NOTES}{query}{more}" for query in QUERIES for more in FILTERS]
LISTS += [f"{NOTES}?state=4&failed=24h&queue={queue}" for queue in ("rare", "default")]
PAGES = ["/admin/dbqueue/queue/", "/admin/dbqueue/queue/charts/?table=queueapp.note&span=hour"]
# See ``steps``. MariaDB counts the rows of a counting query's own table, too.
BOUND = {"mysql": 24_000, "postgresql": 12_000, "sqlite": 14_000}[connection.vendor]

# So large that its pages cost PostgreSQL more than a window's keys.
BACKLOG, ITS_TEXT, ITS_TABLE = 40_000, "x" * 1_500, Kept._meta.db_table
BACKLOG_WINDOW, BACKLOG_BOUND = 200, 4_000

AT_ONCE, THOUSAND = 500, 1000
KEYS_BOUND = 7_000  # to find a row by its key, PostgreSQL reads some buffers


@pytest.fixture(scope="module", autouse=True)
def _skewed_table(django_db_setup, django_db_blocker):
    with django_db_blocker.unblock():
        truncate(TABLE)
        for status in Status:
            fill(status)
        update_statistics(TABLE)
        yield
        truncate(TABLE)


@pytest.fixture(scope="module")
def browser(_skewed_table, django_db_blocker):
    with django_db_blocker.unblock():
        user = User.objects.create_superuser("reader")
        client = Client()
        client.force_login(user)
        yield client
        user.delete()


def fill(status):
    """Nine of ten jobs are in one queue, and a few of the oldest ones in a rare one."""
    now = timezone.now()
    QuerySet[Note](Note).bulk_create(
        Note(
            status=status,
            queue="rare" if n < RARE else "bulk" if n % 10 == 0 else "default",
            dedup_key=f"rare{status}" if n == 0 else None,
            owner="w.1" if status == Status.CLAIMED else None,
            retry_at=now + timedelta(hours=1, seconds=n) if status in MOVE else None,
            finished_at=now if status in {Status.DONE, Status.BURIED} else None,
            failed_at=now - timedelta(seconds=n) if status == Status.BURIED else None,
        )
        for n in range(SEED)
    )
    wanted, count = DONE if status == Status.DONE else OTHERS, SEED
    while count < wanted:
        part = min(count - RARE, wanted - count)
        copy_rows(Note, f"status = {status:d} AND queue <> 'rare'", part)
        count += part


@pytest.fixture(autouse=True)
def _one_window(monkeypatch):
    """What a list looks on for is bounded by time: tests/admin/test_lists.py."""
    monkeypatch.setattr(walking, "WALK_SECONDS", 0)


# For the oldest ones MySQL walks along the table's key, whatever index has them.
WALKED_ON_MYSQL = f"{NOTES}?state={Status.BURIED.value}&before=[]"


@pytest.mark.parametrize("url", [*PAGES, *LISTS])
def test_a_page_reads_a_bounded_part_of_the_table(browser, url):
    if url == WALKED_ON_MYSQL and is_mysql():
        pytest.xfail("MySQL goes by an estimate of this order's cost")
    took = steps(lambda: text_of(browser.get(url)), TABLE)
    assert took < BOUND


@pytest.mark.parametrize("status", [None, *Status])
def test_a_thousand_keys_are_counted_and_listed_by_their_keys(status):
    """As a search has them: by the index of a state, all jobs in it would be looked at."""
    newest = QuerySet(Note).order_by("-pk").values_list("pk", flat=True)
    keyset = keyset_of(QuerySet(Note).filter(pk__in=list(newest[:THOUSAND])), status)
    assert steps(keyset.count, TABLE) < KEYS_BOUND
    assert steps(lambda: keyset.page(50), TABLE) < KEYS_BOUND


@pytest.mark.parametrize("status", Status)
def test_what_is_done_to_jobs_of_a_state_finds_them_by_their_keys(status):
    newest = QuerySet(Note).order_by("-pk").values_list("pk", flat=True)
    chosen = list(newest.filter(status=status)[:AT_ONCE])
    rows = keyset_of(in_state(QuerySet(Note), status), status).queryset  # as the list has them
    of_question = of_keys(rows, [*chosen, -1])
    for asked in (rows, of_question):
        found = [job.pk for job in of_keys(asked, chosen).only("pk")]
        assert sorted(found) == sorted(chosen)
        assert steps(lambda jobs=asked: list(of_keys(jobs, chosen).only("pk")), TABLE) < KEYS_BOUND
    assert not of_keys(of_question, [chosen[0]]).exclude(pk=chosen[0]).exists()
    assert not of_keys(of_keys(rows, chosen[1:]), chosen[:1]).exists()


@pytest.fixture
def _backlog():
    truncate(ITS_TABLE)
    QuerySet[Kept](Kept).bulk_create(
        Kept(queue="default" if n % 10 else "bulk", text=ITS_TEXT) for n in range(SEED)
    )
    while (count := QuerySet(Kept).count()) < BACKLOG:
        copy_rows(Kept, "status = 0", count)
    yield
    truncate(ITS_TABLE)


@pytest.mark.usefixtures("_backlog")
def test_a_window_of_a_table_in_which_most_jobs_wait_is_no_more_than_that():
    """By a row that is compared, PostgreSQL expects a third of the table, and reads all of it; by
    their state SQLite finds all jobs that are in it, where nobody has it analyze the table."""
    rows = QuerySet(Kept).filter(created_at__lt=timezone.now() - timedelta(days=1))
    for is_analyzed in (False, True) if connection.vendor == "sqlite" else (True,):
        if is_analyzed:
            update_statistics(ITS_TABLE)
        for asked in (rows, rows.filter(queue="default")):
            keyset = replace(keyset_of(asked, Status.READY), window_rows=BACKLOG_WINDOW)
            assert steps(keyset.count, ITS_TABLE) < BACKLOG_BOUND
            page = partial(keyset.page, 50, keyset.page(50).window_end)
            assert steps(page, ITS_TABLE) < BACKLOG_BOUND
