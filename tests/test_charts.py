"""Charts: what the table of minutes says, drawn on the server."""

import math
import xml.etree.ElementTree as ET
from datetime import UTC, datetime

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given, settings
from hypothesis import strategies as st

from django_dbqueue.admin import svg
from django_dbqueue.admin.charts import TIMES, charts
from django_dbqueue.admin.words import number, short_time
from django_dbqueue.demo_data.history import write_history
from django_dbqueue.history import SHORTEST, Point, Quantiles, history, last_hour, quantiles
from django_dbqueue.minutes import this_minute
from django_dbqueue.models import Minute, Queue
from django_dbqueue.models.minute import SPANS

pytestmark = pytest.mark.usefixtures("db_rows")
PAGE = "/admin/dbqueue/queue/charts/"
CANARY = '"><script>alert(1)</script>'


def minute(ago, queue="default", **columns):
    at = this_minute("default") - ago
    return Minute.objects.create(job_table="queueapp.note", queue=queue, minute=at, **columns)


def test_an_hour_has_sixty_points_with_zeros_where_nothing_happened():
    minute(59, completed=1)
    minute(3, completed=4, failed=2, buried=1, backlog=7, waited_2=3, ran_0=6)
    minute(3, queue="other", completed=10, backlog=5)
    minute(60, completed=1000)
    points = history("default", "queueapp.note", "default", "hour")
    assert len(points) == 60
    it = next(point for point in points if point.failed)
    assert (it.completed, it.failed, it.buried, it.backlog) == (4, 2, 1, 7)
    assert 0.03 < it.waited.p50 <= it.waited.p95 <= 0.1
    assert it.ran.p95 <= 0.01
    assert sum(point.completed for point in points) in {4, 5}  # the minute may just have ended
    everything = history("default", "queueapp.note", None, "hour")
    assert [(p.completed, p.backlog) for p in everything if p.failed] == [(14, 12)]


@pytest.mark.parametrize(("span", "count", "step"), [("day", 96, 15), ("week", 84, 120)])
def test_longer_spans_add_minutes_up_and_lose_none(span, count, step):
    last = this_minute("default")
    for at in range(last - 300, last):
        Minute.objects.create(job_table="x.y", queue="q", minute=at, completed=1, backlog=at % 7)
    points = history("default", "x.y", "q", span)
    assert len(points) == count
    assert sum(point.completed for point in points) == 300
    starts = [int(point.start.timestamp()) // 60 for point in points]
    assert all(start % step == 0 for start in starts)
    whole = [p for p in points if p.completed == step]
    assert all(p.backlog == (int(p.start.timestamp()) // 60 + step - 1) % 7 for p in whole)
    assert whole


def test_the_last_hour_tells_rates_by_its_last_five_minutes():
    for ago in range(1, 8):
        minute(ago, completed=10, failed=10, backlog=100 - ago * 4)
    minute(2, queue="idle", backlog=5)
    found = last_hour("default")
    hour = found["queueapp.note", "default"]
    assert (hour.rate_out, hour.rate_in, hour.failure_share) == (10, 14, 0.5)
    assert hour.completed == sum(hour.per_minute) == 70
    idle = found["queueapp.note", "idle"]
    assert (idle.rate_out, idle.rate_in, idle.failure_share) == (0, None, None)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 10**6), min_size=len(SPANS) + 1, max_size=len(SPANS) + 1))
def test_a_quantile_lies_within_the_span_that_holds_it(counts):
    found = quantiles(counts)
    if not sum(counts):
        assert found is None
        return
    assert found.p50 <= found.p95
    ends = [SHORTEST, *SPANS, math.inf]
    for share, value in ((0.5, found.p50), (0.95, found.p95)):
        below = 0
        for n, count in enumerate(counts):
            below += count
            if below >= share * sum(counts):
                assert ends[n] <= value * 1.0000001
                assert value <= ends[n + 1] * 1.0000001
                break


ODD = {
    "nothing": [0] * 60,
    "a spike": [0] * 59 + [10**9],
    "gaps": [None if n % 3 else n for n in range(60)],
    "one": [None] * 59 + [3],
    "fractions": [n / 7 for n in range(60)],
}


@pytest.mark.parametrize("name", ODD)
def test_whatever_the_values_the_picture_is_well_formed_and_within_its_frame(name):
    values = ODD[name]
    known = [value for value in values if value]
    series = [svg.Series(CANARY, "done", values)]
    for axis in (svg.linear(max([*known, 0]), number), svg.logarithmic(known, TIMES, short_time)):
        for marks in (svg.bars(series, axis), svg.lines(series, axis)):
            plot = svg.Plot(axis, marks, series)
            labels = [CANARY] * 60
            root = ET.fromstring(svg.chart(CANARY, CANARY, plot, labels, labels))
            assert root.find("title").text == CANARY
            places = [float(e.get(name)) for e in root.iter() for name in ("x", "y") if e.get(name)]
            assert min(places) >= 0
            assert max(places) <= svg.WIDTH
        ticks = [label for _, label in axis.ticks]
        assert 2 <= len(ticks) <= len(TIMES)
        assert len(set(ticks)) == len(ticks)
    ET.fromstring(svg.sparkline([value or 0 for value in values], CANARY))


def test_each_chart_says_in_words_what_it_shows():
    start = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)
    point = Point(start, 1200, 3, 1, 40, Quantiles(0.02, 1.5), Quantiles(0.2, 70))
    throughput, backlog, waited, ran = charts([point], "hour")
    assert throughput.text == "1,200 jobs completed, 3 attempts failed, 1 jobs buried."
    assert backlog.text == "40 jobs at the last count, 40 at most."
    assert waited.text == "At the end half within 20 ms, 95 of 100 within 1.5 s."
    assert ran.text == "At the end half within 200 ms, 95 of 100 within 70 s."
    assert all("Nothing is known" in one.text for one in charts([Point(start)], "week")[1:])


@pytest.mark.parametrize("span", ["hour", "day", "week", "nonsense"])
def test_the_page_shows_charts_and_a_table_with_the_same_figures(browser, span):
    Queue.objects.pause("queueapp.note", CANARY, None, "x")
    write_history("default", "queueapp.note", CANARY)
    page = browser.get(PAGE, {"table": "queueapp.note", "queue": CANARY, "span": span})
    text = page.content.decode()
    assert text.count('<svg class="dbqueue-chart"') == 4
    assert "<script>alert" not in text
    assert text.count('<th scope="row">') == {"day": 96, "week": 84}.get(span, 60)
    assert "style=" not in text.partition("dbqueue-charts")[2].partition("</main>")[0]


def test_the_number_of_queries_does_not_grow_with_the_minutes(browser):
    def queries():
        with CaptureQueriesContext(connection) as captured:
            response = browser.get(PAGE, {"table": "queueapp.note", "span": "week"})
        assert response.status_code == 200
        return len(captured)

    minute(3)
    few = queries()
    Queue.objects.pause("queueapp.note", "default", None, "x")
    write_history("default", "queueapp.note", "default")
    assert queries() == few


def test_a_table_that_is_none_is_not_found_and_who_may_not_look_is_refused(browser, people, client):
    assert browser.get(PAGE, {"table": "no.such"}).status_code == 404
    assert browser.post(PAGE, {"table": "queueapp.note"}).status_code == 405
    assert people("view_note").get(PAGE).status_code == 403
    assert people("view_queue").get(PAGE).status_code == 200
    client.logout()
    assert client.get(PAGE).url.startswith("/admin/login/")
