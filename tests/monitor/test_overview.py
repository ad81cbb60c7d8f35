"""The page of all queues: its numbers, its limits, and who may see it."""

import json
import re

import pytest
from django.contrib import admin
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_dbqueue.admin.overview import summary
from django_dbqueue.admin.pages import AUTO_REFRESH_HEADER
from django_dbqueue.admin.queue_rows import groups
from django_dbqueue.metrics.numbers import Count
from django_dbqueue.metrics.recorder import this_minute
from django_dbqueue.models import Minute, Queue, Worker
from django_dbqueue.monitor.document import document
from django_dbqueue.monitor.glance import glance
from django_dbqueue.monitor.overview import overview
from django_dbqueue.monitor.worker_list import list_workers
from django_dbqueue.states import Status
from django_dbqueue.testing import virtual_clock
from django_dbqueue.worker.served import Served, all_served
from tests.kit.bounds import limits
from tests.kit.jobs import buried, claimed, overwrite
from tests.kit.overview import CANARY, NOTE, OVERVIEW, Away, a_worker, look, minute, queues, text_of
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")


def many(count, status=Status.READY, queue="default"):
    """So many jobs in a state; as the lifecycle leaves them, as far as the indexes know."""
    Note.objects.enqueue_many([{} for _ in range(count)], queue=queue)
    if status != Status.READY:
        moves = "created_at" if status in {Status.CLAIMED, Status.DELAYED} else "NULL"
        with connection.cursor() as cursor:
            cursor.execute(
                f"UPDATE queueapp_note SET status = {status:d}, retry_at = {moves} "
                "WHERE queue = %s AND status = 0",
                [queue],
            )


def test_each_queue_has_the_counts_of_its_own_jobs():
    claimed(queue="a")
    buried(queue="a")
    for queue, count in {"a": 3, "b": 1}.items():
        many(count, queue=queue)
    Note.objects.enqueue(queue="b", delay=3600)
    overdue = Note.objects.enqueue(queue="b", delay=3600)[0]
    overwrite(overdue, retry_at=overdue.created_at)
    found = queues()
    counts = {
        queue: {status.label: count for status, count in one.counts.items()}
        for queue, one in found.items()
    }
    assert counts == {
        "a": {"ready": 3, "claimed": 1, "delayed": 0, "buried": 1},
        "b": {"ready": 1, "claimed": 0, "delayed": 2, "buried": 0},
    }
    assert {queue: one.due for queue, one in found.items()} == {"a": 0, "b": 1}
    assert not any(one.at_least for one in found.values())
    assert found["a"].oldest_seconds is not None


def test_of_many_ready_jobs_each_queue_still_has_a_count_of_its_own():
    many(1_002, queue="long")
    many(7, queue="short")
    found = queues()
    assert found["long"].counts[Status.READY] == 1_000
    assert found["long"].at_least == {Status.READY}
    assert found["short"].counts[Status.READY] == 7
    assert not found["short"].at_least
    assert ("waiting", "waiting", "1,007+", "") in summary(look())


def test_of_many_buried_jobs_the_counts_are_at_least(rf, admin_user):
    many(1_002, Status.BURIED, "long")
    many(1, queue="short")
    request = rf.get(OVERVIEW)
    request.user = admin_user
    [group] = groups(look(), admin.site, request)
    cells = {row.queue.queue: row.cells[-1] for row in group.rows}
    # They may have been counted all in one queue, or a few less.
    assert cells["long"].text == "1,001+"
    assert (cells["short"].text, cells["short"].url) == ("?", "")
    assert "a worker has not counted them yet" in cells["short"].title
    assert cells["long"].url == f"/admin/queueapp/note/?state={Status.BURIED:d}&queue=long"


def test_beyond_a_hundred_queues_it_says_so(browser):
    Note.objects.bulk_create([Note(queue=f"q{n:03}") for n in range(100)])
    found = look()
    assert [len(found.queues), found.cut] == [100, [NOTE]]
    assert "It has more than 100 queues." in text_of(browser.get(OVERVIEW))
    Note.objects.filter(queue="q099").cancel()
    assert look().cut == []


def test_queues_without_a_job_are_shown_while_paused_or_served_by_name():
    assert [one.queue for one in look().queues] == ["default"]
    assert queues() == {}
    Queue.objects.pause(Note._meta.db_table, "asleep", 60, "tea")
    a_worker(serves=[f"{NOTE}:awaited"])
    a_worker(serves=["queueapp.big:other"])
    found = queues()
    assert sorted(found) == ["asleep", "awaited"]
    assert found["asleep"].paused.pause_reason == "tea"
    assert len(found["awaited"].workers) == 1
    Queue.objects.resume(Note._meta.db_table, "asleep")
    assert sorted(queues()) == ["awaited"]


@pytest.fixture
def within_a_minute():
    """However long it takes, no other minute begins."""
    with virtual_clock():
        yield


@pytest.mark.usefixtures("within_a_minute")
def test_the_page_tells_counts_rates_pauses_and_ways_to_the_jobs(browser):
    many(2, queue="busy")
    buried(queue="busy")
    for ago in range(8):  # the present one, too, which may end just now
        minute(ago, "busy", completed=1000, failed=500, backlog=100)
    Queue.objects.pause(Note._meta.db_table, "busy", None, "the printer burns")
    a_worker()
    text = text_of(browser.get(OVERVIEW))
    state = re.search(r'href="([^"]+)"[^>]*data-key="buried queueapp.note busy">1<', text)[1]
    assert state == "/admin/queueapp/note/?state=4&amp;queue=busy"
    assert "/admin/dbqueue/queue/charts/?table=queueapp.note&amp;queue=busy" in text
    assert "until somebody resumes it: the printer burns" in text
    for cell in ('data-label="Done, 1 h">8,000<', ">33 % failed<"):
        assert cell in text
    assert 'data-label="In, out per minute">1,000<' in text
    assert re.search(r"living workers</a></dt><dd>1</dd>", text)
    assert re.search(r"jobs per minute</dt><dd>1,000</dd>", text)
    assert "<script>" not in text.partition("<main")[2]
    assert "style=" not in text.partition("<main")[2].partition("</main>")[0]


def test_nothing_that_users_or_workers_write_is_taken_for_markup(browser):
    Note.objects.enqueue(queue=CANARY)
    Queue.objects.pause(Note._meta.db_table, CANARY, None, CANARY)
    a_worker(host=CANARY, trouble=CANARY, serves=[NOTE, f"{NOTE}:{CANARY}"])
    text = text_of(browser.get(OVERVIEW))
    assert "<script>alert" not in text
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;") > 5


def test_names_and_workers_written_by_hand_are_shown_as_they_are(browser):
    odd = Note.objects.create()
    Note._base_manager.filter(pk=odd.pk).update(status=99)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE queueapp_note SET queue = ''")
        cursor.execute("UPDATE queueapp_note SET status = 4")
    a_worker(serves={"a": 1}, running=[1, {"job": 2}])
    a_worker(serves=7, running={"7": [{"seconds": "long"}, 3]})
    assert list(queues()) == [""]
    assert "(no name)" in text_of(browser.get(OVERVIEW))
    assert "web1" in text_of(browser.get("/admin/dbqueue/worker/"))


def test_the_number_of_queries_does_not_grow_with_the_jobs():
    def queries():
        with CaptureQueriesContext(connection) as captured:
            look()
        return len(captured)

    for status in Status:
        many(1, status, f"q{status}")
    minute(3)
    few = queries()
    for status in Status:
        many(50, status, f"q{status}")
    now = this_minute("default")
    for ago in range(10, 60):
        minute(ago, now=now, completed=1)
    assert queries() == few


def queries_of(tables):
    with CaptureQueriesContext(connection) as captured:
        overview(tables)
    return len(captured)


def test_a_queue_table_without_a_job_costs_at_most_seven_queries():
    tables = list(all_served())
    assert len(tables) > 20
    assert queries_of(tables) - queries_of(tables[:1]) <= 7 * (len(tables) - 1)


def test_one_table_costs_the_same_however_many_queues_were_busy_in_others():
    tables = list(all_served())
    before = queries_of(tables[:1])
    for served in tables[1:9]:
        for number in range(5):
            Minute.objects.create(job_table=served.job_table, queue=f"q{number}", minute=1)
    assert queries_of(tables[:1]) == before


def test_a_queue_that_was_busy_lately_is_shown_without_a_job_whatever_tables_are_asked_for():
    for name in ("lately", "later"):
        Minute.objects.create(job_table="queueapp_note", queue=name, minute=1, completed=1)
    for tables in (None, [note_served()]):
        found = {one.queue for one in overview(tables).queues if one.table == NOTE}
        assert found == {"default", "lately", "later"}


def test_a_pause_of_everything_and_of_a_table_and_of_a_queue_are_told_apart():
    Note.objects.create(queue="a")
    Queue.objects.pause_everything(reason="all of it")
    assert {one.paused.scope for one in overview([note_served()]).queues} == {"everything"}
    Queue.objects.pause("queueapp_note", "*", None, "the table")
    assert {one.paused.scope for one in overview([note_served()]).queues} == {"its whole table"}
    Queue.objects.pause("queueapp_note", "a", None, "the queue")
    found = {one.queue: one.paused.scope for one in overview([note_served()]).queues}
    assert found == {"a": "its queue", "default": "its whole table"}


def note_served():
    return next(one for one in all_served() if one.model is Note)


def test_a_database_that_is_away_does_not_take_the_page_with_it(browser, settings):
    Note.objects.enqueue(queue="here")
    away = Away(Note)
    try:
        settings.DATABASE_ROUTERS = [away]
        text = text_of(browser.get(OVERVIEW))
        assert "database &#x27;away&#x27; cannot be asked" in text
        assert "The rest of the page goes on without it." in text
        workers = browser.get("/admin/dbqueue/worker/?database=away", follow=True)
        assert "cannot be asked" in text_of(workers)
    finally:
        settings.DATABASE_ROUTERS = []
        away.end()


def test_who_may_see_it(people, client):
    assert text_of(people("view_queue").get(OVERVIEW))
    assert "Pause..." not in text_of(client.get(OVERVIEW))
    assert people("view_note", "pause_queue").get(OVERVIEW).status_code == 403
    assert client.post(OVERVIEW).status_code == 405
    client.logout()
    assert client.get(OVERVIEW).url.startswith("/admin/login/")


def test_links_lead_only_where_their_reader_may_go(people):
    many(1, queue="a")
    buried(queue="a")
    assert "/admin/queueapp/note/" not in text_of(people("view_queue").get(OVERVIEW))
    assert "/admin/queueapp/note/?state=4" in text_of(
        people("view_queue", "view_note").get(OVERVIEW)
    )


def test_rows_of_queues_have_no_pages_to_add_change_or_delete_them(browser):
    Queue.objects.pause(Note._meta.db_table, "a", 60, "x")
    row = Queue.objects.get()
    assert browser.get(f"{OVERVIEW}add/").status_code == 403
    assert browser.post(f"{OVERVIEW}{row.pk}/delete/", {"post": "yes"}).status_code == 403
    assert browser.get(f"{OVERVIEW}{row.pk}/change/").url == OVERVIEW


def test_a_renewal_leaves_messages_to_whoever_loads_the_page(browser):
    data = {"table": NOTE, "queue": "a", "how": "good", "reason": "tea"}
    assert browser.post(f"{OVERVIEW}pause/", data).status_code == 302
    said = "Paused queueapp.note, queue a, until somebody resumes it: tea."
    assert said not in text_of(browser.get(OVERVIEW, headers={AUTO_REFRESH_HEADER: "1"}))
    assert said in text_of(browser.get(OVERVIEW))


@pytest.mark.skipif(connection.vendor != "sqlite", reason="elsewhere a column has one type")
def test_a_name_of_bytes_that_a_hand_wrote_takes_no_page_with_it(browser):
    minute(5, completed=1)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE dbqueue_minute SET queue = x'ff'")
    for page in (OVERVIEW, f"{OVERVIEW}charts/?table={NOTE}", "/admin/queueapp/note/"):
        assert "default" in text_of(browser.get(page)), page
    with connection.cursor() as cursor:
        cursor.execute("UPDATE dbqueue_minute SET job_table = x'ff'")
    assert "default" in text_of(browser.get(OVERVIEW))


def test_a_bounded_queue_shows_how_full_it_is(browser):
    claimed()
    Note.objects.create()
    Note.objects.enqueue(delay=60)
    buried(queue="other")
    with limits("queueapp.note:default", max_length=1000):
        page = text_of(browser.get(OVERVIEW))
        assert (queues()["default"].held, queues()["other"].max_length) == (Count(3), None)
    assert page.count("holds 3 of 1,000") == 1
    assert "holds" not in text_of(browser.get(OVERVIEW))


@pytest.mark.parametrize(
    "job",
    [
        {"job": f"{NOTE} {10**22}", "seconds": 1, "limit": 2},
        {"job": f"{NOTE} 1", "seconds": float("inf"), "limit": 10**400},
    ],
)
def test_numbers_that_no_worker_writes_stop_neither_page_nor_machines(browser, job):
    running = json.dumps({"7": [job]}).replace("Infinity", "1e400")
    worker = a_worker()
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {Worker._meta.db_table} SET running = %s", [running])
    assert str(worker) in text_of(browser.get(OVERVIEW))
    told = document(glance([Served(Note, "default")]), sees_workers=True)
    json.dumps(told, allow_nan=False)


@pytest.mark.parametrize("seconds", [10**400, 1e300, "long"], ids=["whole", "float", "text"])
def test_a_decision_at_a_time_that_no_worker_writes_stops_no_page(browser, seconds):
    pool = {"decisions": [{"seconds": seconds, "text": "grew"}, {"seconds": 5, "text": "shrank"}]}
    worker = a_worker(pool=pool)
    assert str(worker) in text_of(browser.get(OVERVIEW))
    [listed] = list_workers("default")
    assert [one.text for one in listed.pool.decisions] == ["shrank"]
