"""Lists in the admin go from any row to the next ones, at a cost that does not grow."""

import random
from dataclasses import replace

import pytest
from django.contrib.admin import site
from django.db import connection
from django.db.models import F, QuerySet
from django.test.utils import CaptureQueriesContext

from django_dbqueue.admin import JobAdmin
from django_dbqueue.admin.lists import QueueFilter
from django_dbqueue.operate import keyset as pagination
from django_dbqueue.operate import walking
from django_dbqueue.states import Status
from tests.kit.admin_lists import FAILED, MOVES, NOTES, START, fill, keys_in, step, text_of, walk
from tests.kit.jobs import buried, claimed, done
from tests.models.test_fields import plain
from tests.queueapp.models import ArchivedKept, Everything, Note, Owner

pytestmark = pytest.mark.usefixtures("db_rows")

# By tab: the words of its links, and its order.
TABS = {
    "?": ("Older", "Newer", ["-id"]),
    "?state=0": ("Next", "Previous", ["queue", "priority", "id"]),
    "?state=1": ("Next", "Previous", ["retry_at", "id"]),
    "?state=2": ("Older", "Newer", ["-id"]),
    "?state=3": ("Next", "Previous", ["retry_at", "id"]),
    "?state=4": ("Older", "Newer", [F("failed_at").desc(nulls_last=True), "-id"]),
}


@pytest.fixture
def short_pages(monkeypatch):
    monkeypatch.setattr(JobAdmin, "list_per_page", 7)


def rows_of(query):
    rows = QuerySet(Note).order_by(*TABS[query][2])
    state = query.partition("=")[2]
    rows = rows.filter(status=int(state)) if state else rows
    return list(rows.values_list("pk", flat=True))


@pytest.mark.each_database
@pytest.mark.parametrize("query", TABS)
def test_a_walk_there_and_back_shows_each_row_once(browser, short_pages, query):
    fill(12)
    expected = rows_of(query)
    on, back, _ = TABS[query]
    pages, last = walk(browser, query, on)
    assert [key for page in pages for key in page] == expected
    assert step(last, on) is None
    # From the end, page by page, as from the link to it.
    end = step(text_of(browser.get(NOTES + query)), "Oldest" if on == "Older" else "Last")
    pages, first = walk(browser, end, back)
    assert [key for page in reversed(pages) for key in page] == expected
    assert {len(page) for page in pages[:-1]} == {7}
    assert step(first, back) is None


@pytest.mark.each_database
@pytest.mark.parametrize("query", TABS)
def test_rows_that_come_and_go_meanwhile_hide_no_other(browser, short_pages, query):
    fill(10)
    stay = set(rows_of(query)[::2])
    go = [key for key in rows_of(query) if key not in stay]
    random.seed(4)
    random.shuffle(go)
    there, shown = query, []
    while there is not None:
        page = text_of(browser.get(NOTES + there))
        shown += keys_in(page)
        there = step(page, TABS[query][0])
        # Also the one that the link names.
        gone = {*shown[-1:], *go[:3]} - stay
        QuerySet(Note).filter(pk__in=gone)._raw_delete("default")
        go = [key for key in go[3:] if key not in gone]
        fill(1)
    assert len(shown) == len(set(shown))
    assert stay <= set(shown)


def test_where_all_has_gone_the_way_leads_back(browser, short_pages):
    fill(10, [Status.READY])
    older = step(text_of(browser.get(NOTES)), "Older")
    QuerySet(Note).filter(pk__lte=rows_of("?")[6])._raw_delete("default")
    page = text_of(browser.get(NOTES + older))
    assert keys_in(page) == []
    assert "Nothing here" in page
    assert len(keys_in(text_of(browser.get(NOTES + step(page, "Newest"))))) == 6


@pytest.mark.parametrize(
    "place", ["", "x", "[", "[1, 2]", '["x"]', "{}", "[null]", "[1e9]", "[[1]]", f"[{10**30}]",
              "5", '["\\u0000"]', "[true]", "[" * 5000, '["\\ud800"]']
)  # fmt: skip
@pytest.mark.parametrize("state", ["", "0", "3"])
def test_a_place_that_is_none_is_answered_with_the_beginning(browser, place, state):
    jobs = fill(1)
    page = text_of(browser.get(NOTES, {"after": place, **({"state": state} if state else {})}))
    if place == "[true]" and not state:
        return  # which is the number one
    assert "names no place in this list" in page
    assert set(keys_in(page)) <= {job.pk for job in jobs}
    assert keys_in(page)


def test_a_filter_is_looked_for_among_so_many_rows(browser, monkeypatch):
    monkeypatch.setattr(pagination, "WINDOW_ROWS", 20)
    monkeypatch.setattr(walking, "WALK_SECONDS", 0)
    fill(1, [Status.BURIED], text="rare")
    fill(15, [Status.DONE, Status.BURIED], text="common")
    [rare] = QuerySet(Note).filter(text="rare")
    for query, looks in (("?text=rare", 2), ("?text=rare&state=4", 1), ("?text=rare&state=0", 1)):
        page = text_of(browser.get(NOTES + query))
        for _ in range(looks - 1):
            assert keys_in(page) == []
            assert "Nothing among the 20 jobs that were looked at" in page
            assert 'class="dbqueue-count">0+<' in page
            page = text_of(browser.get(NOTES + step(page, "Look further, from job")))
        assert keys_in(page) == ([] if "state=0" in query else [rare.pk])
        assert step(page, "Look further") is None
    # The states that have an index of their own are not looked for.
    assert rare.pk in keys_in(text_of(browser.get(f"{NOTES}?state=4")))


@pytest.mark.each_database
@pytest.mark.parametrize("status", Status)
def test_the_jobs_of_a_queue_are_counted_by_an_index_that_knows_it(monkeypatch, status):
    monkeypatch.setattr(pagination, "WINDOW_ROWS", 5)
    fill(12)
    rows = QuerySet(Note).filter(queue="q1")
    number = rows.filter(status=status).count()
    counted = pagination.keyset_of(rows, status).count()
    knows = status == Status.READY or not connection.features.supports_partial_indexes
    assert counted.is_at_least != knows
    assert number >= counted.number
    assert counted.number == number or not knows
    # It does not know what else is asked; of ready jobs it is asked of those of the queue.
    monkeypatch.setattr(pagination, "WINDOW_ROWS", 3)
    assert pagination.keyset_of(rows.filter(attempts=0), status).count().is_at_least


def test_a_look_is_taken_back_as_well(browser, monkeypatch):
    monkeypatch.setattr(pagination, "WINDOW_ROWS", 5)
    monkeypatch.setattr(walking, "WALK_SECONDS", 0)
    fill(1, [Status.DONE], text="rare")
    fill(11, [Status.DONE], text="common")
    fill(1, [Status.DONE], text="rare")
    pages, last = walk(browser, "?text=rare", "(?:Older|Look further)")
    new, old = [job.pk for job in QuerySet(Note).filter(text="rare").order_by("-pk")]
    assert [key for page in pages for key in page] == [new, old]
    pages, _ = walk(browser, step(last, "Newer"), "(?:Newer|Look further)")
    assert [key for page in pages for key in page] == [new]


@pytest.mark.parametrize("query", ["?text=rare", "?text=rare&state=4", "?queue=q7"])
def test_a_list_looks_on_by_itself_while_it_has_time(browser, monkeypatch, query):
    monkeypatch.setattr(pagination, "WINDOW_ROWS", 5)
    monkeypatch.setattr(walking, "WALK_SECONDS", 60)
    [rare] = fill(1, [Status.BURIED], text="rare")
    QuerySet(Note).filter(pk=rare.pk).update(queue="q7")
    fill(40, [Status.DONE, Status.BURIED], text="common")
    page = text_of(browser.get(NOTES + query))
    assert keys_in(page) == [rare.pk]
    assert step(page, "Look further") is None
    assert "1 note<" in page


def test_it_says_how_far_it_has_looked(browser, monkeypatch, short_pages):
    monkeypatch.setattr(pagination, "WINDOW_ROWS", 5)
    monkeypatch.setattr(walking, "WALK_SECONDS", 0)
    fill(9, [Status.DONE], text="common")
    fill(1, [Status.DONE], text="rare")
    page = text_of(browser.get(f"{NOTES}?text=rare"))
    assert "These are among the 5 jobs that were looked at; there are more." in page
    assert step(page, "Look further") is not None


def test_a_list_has_one_bar_of_actions(browser):
    fill(1)
    assert text_of(browser.get(NOTES)).count('class="actions"') == 1


@pytest.mark.parametrize("query", [*TABS, "?queue=q1", "?state=3&queue=q1", "?q=5", "?o=2"])
def test_the_number_of_queries_does_not_grow(browser, query):
    def cost():
        with CaptureQueriesContext(connection) as queries:
            text_of(browser.get(NOTES + query))
        sorts = [q["sql"] for q in queries if "OFFSET" in q["sql"] and "ORDER BY" not in q["sql"]]
        assert sorts == []
        return len(queries)

    fill(20)
    few = cost()
    fill(100)
    # Where there are more than are counted now, it asks once more: what was counted before.
    assert few <= cost() <= few + 1 <= 38


@pytest.mark.each_database
def test_a_column_without_an_index_orders_no_list(browser):
    fill(2)
    page = text_of(browser.get(f"{NOTES}?o=-3.2"))
    assert keys_in(page) == rows_of("?")
    assert 'class="sortable' not in page


def test_who_wants_other_orders_gets_djangos_pages(browser, short_pages, monkeypatch):
    monkeypatch.setattr(JobAdmin, "sortable_by", ("attempts", "dequeued_time"))
    fill(3)
    page = text_of(browser.get(f"{NOTES}?o=6"))
    assert "p=2" in page
    assert len(keys_in(text_of(browser.get(f"{NOTES}?o=6&p=3")))) == 1


@pytest.mark.each_database
@pytest.mark.parametrize("status", [None, *Status])
def test_chunks_have_all_rows_whatever_the_windows_of_a_list(monkeypatch, status):
    monkeypatch.setattr(pagination, "WINDOW_ROWS", 2)
    monkeypatch.setattr(walking, "CHUNK_WINDOW_ROWS", 5)
    rows = {row.pk for row in fill(12, attempts=1) if status in (None, row.status)}
    fill(6)
    keyset = pagination.keyset_of(QuerySet(Note).filter(attempts=1), status)
    assert keyset.scanned is not None
    found = [row.pk for chunk in walking.chunks(keyset, 3) for row in chunk]
    assert sorted(found) == sorted(rows)


@pytest.mark.parametrize("status", [None, *Status])
@pytest.mark.parametrize("asked", [{}, {"failure": "f"}, {"queue": "q"}])
@pytest.mark.parametrize("its", [{"status": 4}, {"queue": "q"}])
def test_a_filter_on_another_table_is_not_taken_for_one_on_the_jobs(status, asked, its):
    """That table has columns of the same names."""
    ours, other = (Owner.objects.create(status=n, queue=q) for n, q in ((4, "q"), (0, "")))
    known = {"failure": "f", "queue": "q"}
    all_rows = QuerySet[Everything](Everything).order_by("pk")
    all_rows.bulk_create(
        Everything(an_owner=owner, status=state, **known, **plain())
        for owner in (ours, other, other)
        for state in Status
    )
    all_rows.filter(status__in=MOVES).update(retry_at=START)
    all_rows.filter(status=FAILED).update(failed_at=START)
    found = all_rows.filter(**asked, **{f"an_owner__{name}": its[name] for name in its})
    keyset = pagination.keyset_of(found, status)
    wanted = all_rows.filter(an_owner=ours)
    shown = sorted(keyset.page(50).rows, key=lambda row: row.pk)
    assert shown == [row for row in wanted if status in (None, row.status)]
    assert keyset.count().number == len(shown)


def test_the_tabs_lead_somewhere_whatever_filters_a_project_sets(browser, monkeypatch):
    for model in (Note, ArchivedKept):
        monkeypatch.setattr(site.get_model_admin(model), "list_filter", ("attempts",))
    fill(1)
    for state in Status:
        [key] = keys_in(text_of(browser.get(f"{NOTES}?state={state.value}&queue=q0")))
        assert QuerySet(Note).get(pk=key).status == state
        archive = browser.get(f"/admin/queueapp/archivedkept/?state={state.value}")
        assert archive.status_code == 200


class QueueBegins(QueueFilter):
    """A project's own, by the same parameter."""

    def queryset(self, request, queryset):
        return queryset.filter(queue__startswith=self.value() or "")


@pytest.mark.parametrize(("own", "shown"), [(QueueBegins, 15), ("queue", 0)])
def test_a_filter_of_a_project_takes_the_place_of_ours(browser, monkeypatch, own, shown):
    monkeypatch.setattr(site.get_model_admin(Note), "list_filter", (own,))
    fill(3)
    page = text_of(browser.get(f"{NOTES}?queue=q"))
    assert len(keys_in(page)) == shown
    assert page.count("By queue") == 1


@pytest.mark.parametrize("status", [None, *Status])
@pytest.mark.parametrize(
    "asked",
    [
        {"failure": F("an_owner__name")},
        {"failure": "f", "failed_at__gte": F("an_owner__failed_at")},
        {"queue": F("an_owner__queue")},
    ],
)
def test_a_value_of_another_table_is_read_with_that_table(status, asked):
    owner = Owner.objects.create(name="f", failed_at=START)
    Everything.objects.create(an_owner=owner, **plain())
    columns = {"failure": "f", "failed_at": START, "retry_at": START}
    QuerySet(Everything).update(status=status or 0, **columns)
    keyset = pagination.keyset_of(QuerySet(Everything).filter(attempts=0).filter(**asked), status)
    assert len(keyset.page(50).rows) <= 1
    assert keyset.count().number <= 1


@pytest.mark.each_database
def test_a_window_leaves_out_none_of_its_rows_where_more_urgent_ones_come_meanwhile(monkeypatch):
    monkeypatch.setattr(pagination, "WINDOW_ROWS", 3)
    jobs = [Note.objects.create(text="one") for _ in range(6)]
    ends: pagination.WindowEnds = {}
    rows = QuerySet(Note).filter(text="one")
    keyset = pagination.keyset_of(rows, Status.READY, window_ends=ends)
    keyset.window(None, backwards=False)
    Note.objects.bulk_create(Note(text="one", priority=0) for _ in range(150))
    found, end = keyset.window(None, backwards=False)
    assert {row.pk for row in jobs[:3]} <= {row.pk for row in found}
    rest, _end = keyset.window(end, backwards=False)
    assert {row.pk for row in rest} == {row.pk for row in jobs[3:]}


@pytest.mark.parametrize("status", [None, Status.READY, Status.DELAYED])
def test_windows_of_two_sizes_are_told_apart(status):
    fill(12, attempts=1)
    ends: pagination.WindowEnds = {}
    keyset = pagination.keyset_of(QuerySet(Note).filter(attempts=1), status, window_ends=ends)
    sizes = (2, 5, 2)
    counts = [replace(keyset, window_rows=size).count().number for size in sizes]
    assert counts == [*sizes]


@pytest.mark.each_database
def test_a_whole_number_or_key_is_found(browser, monkeypatch):
    monkeypatch.setattr(pagination, "WINDOW_ROWS", 5)
    old = Note.objects.create(dedup_key="photo:7")
    fill(20, [Status.DONE])
    for query in ({"q": old.pk}, {"q": "photo:7"}, {"q": "photo:7", "queue": "default"}):
        assert keys_in(text_of(browser.get(NOTES, query))) == [old.pk], query
        assert keys_in(text_of(browser.get(NOTES, query | {"state": "0"}))) == [old.pk]
    for text in ("photo", "photo:", "9" * 40, "-1", "1.5", "%", "x' OR 1=1"):
        assert keys_in(text_of(browser.get(NOTES, {"q": text}))) == []
    assert keys_in(text_of(browser.get(NOTES, {"q": "photo:7", "queue": "q1"}))) == []
    assert "a whole dedup key" in text_of(browser.get(NOTES))


COLUMNS = {
    "": {"due"},
    "?state=0": set(),
    "?state=1": {"held_by", "dequeued_time"},
    "?state=2": {"finished_at"},
    "?state=3": {"due"},
    "?state=4": {"failed_at"},
}


@pytest.mark.parametrize("query", COLUMNS)
def test_a_list_has_the_columns_of_its_state(browser, query):
    Note.objects.create()
    for make in (claimed, done, buried):
        make()
    Note.objects.enqueue(delay=60)
    page = text_of(browser.get(f"/admin/queueapp/note/{query}"))
    shown = {name for name in set().union(*COLUMNS.values()) if f"column-{name}" in page}
    assert shown == COLUMNS[query]
    assert "column-last_error" in page
