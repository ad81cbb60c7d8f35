"""Charts: what the table of minutes says, drawn on the server."""

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from django_dbqueue.admin import svg
from django_dbqueue.admin.formatting import short_number, short_time
from django_dbqueue.admin.plots import TIME_TICKS, charts, names
from django_dbqueue.demo_data.history import write_history
from django_dbqueue.metrics.recorder import this_minute
from django_dbqueue.metrics.time_series import (
    CHARTED,
    Point,
    Quantiles,
    history,
    last_hour,
    quantiles,
)
from django_dbqueue.models import Minute, Queue
from django_dbqueue.models.minute import SPANS, SUMS
from tests.kit.examples import examples
from tests.kit.overview import OVERVIEW, Away, minute, text_of
from tests.queueapp.models import Note

pytestmark = [pytest.mark.any_database, pytest.mark.usefixtures("db_rows")]
PAGE = "/admin/dbqueue/queue/charts/"
CANARY = '"><script>alert(1)</script>'


def test_an_hour_has_sixty_points_with_zeros_where_nothing_happened():
    now = this_minute("default")
    minute(59, now=now, completed=1)
    minute(3, now=now, completed=4, failed=2, buried=1, backlog=7, waited_2=3, ran_0=6)
    minute(3, "other", now=now, completed=10, backlog=5)
    minute(60, now=now, completed=1000)
    minute(3, now=now, job_table="x.y", completed=100)
    points = history("default", "queueapp_note", "default", "hour")
    assert len(points) == 60
    it = next(point for point in points if point.failed)
    assert (it.completed, it.failed, it.buried, it.backlog) == (4, 2, 1, 7)
    assert 0.03 < it.waited.p50 <= it.waited.p95 <= 0.1
    assert it.ran.p95 <= 0.01
    assert sum(point.completed for point in points) in {4, 5}  # the minute may just have ended
    everything = history("default", "queueapp_note", None, "hour")
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
    assert all(p.peak == 6 for p in whole)
    assert all(p.backlog == (int(p.start.timestamp()) // 60 + step - 1) % 7 for p in whole)
    assert whole


def test_the_last_hour_tells_rates_by_its_last_five_minutes():
    now = this_minute("default")
    for ago in range(8):  # the present one, too, which may end just now
        minute(ago, now=now, completed=10, failed=10, backlog=100 - ago * 4)
        minute(ago, "poison", now=now, failed=2, buried=2, backlog=7)
    minute(2, "idle", now=now, backlog=5)
    found = last_hour("default")
    hour = found["queueapp_note", "default"]
    assert (hour.rate_out, hour.rate_in, hour.failure_share) == (10, 14, 0.5)
    assert hour.completed == sum(hour.per_minute) == 80
    poison = found["queueapp_note", "poison"]
    assert (poison.rate_out, poison.rate_in, poison.failure_share) == (0, 2, 1)
    idle = found["queueapp_note", "idle"]
    assert (idle.rate_out, idle.rate_in, idle.failure_share) == (0, None, None)


@pytest.mark.skipif(connection.vendor != "sqlite", reason="elsewhere a column has one type")
def test_words_that_a_hand_wrote_for_numbers_are_none_in_the_last_hour(browser):
    now = this_minute("default")
    for ago in range(3):
        minute(ago, now=now, completed=1, failed=1, buried=1, backlog=5)
    with connection.cursor() as cursor:
        sets = ", ".join(f"{name} = 'x'" for name in (*SUMS, "backlog"))
        cursor.execute(f"UPDATE dbqueue_minute SET {sets} WHERE minute = {now - 1}")
    hour = last_hour("default")["queueapp_note", "default"]
    assert (hour.completed, hour.failed, hour.buried) == (2, 2, 2)
    assert list(hour.backlogs.values()) == [5, 5]
    for page in (OVERVIEW, f"{PAGE}?table=queueapp.note&span=hour"):
        assert browser.get(page).status_code == 200


@examples(100)
@given(st.lists(st.integers(0, 10**6), min_size=len(SPANS) + 1, max_size=len(SPANS) + 1))
def test_a_quantile_is_the_end_of_the_span_that_holds_it(counts):
    found = quantiles(counts)
    if not sum(counts):
        assert found is None
        return
    assert found.p50 <= found.p95
    for share, value in ((0.5, found.p50), (0.95, found.p95)):
        below = 0
        for end, count in zip((*SPANS, math.inf), counts, strict=True):
            below += count
            if below >= share * sum(counts):
                assert value == end
                break


ODD: dict[str, Sequence[float | None]] = {
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
    for axis in (
        svg.linear(max([*known, 0]), short_number),
        svg.logarithmic(known, TIME_TICKS, short_time),
    ):
        for marks in (svg.bars(series, axis), svg.lines(series, axis)):
            plot = svg.Plot(axis, marks, series)
            labels = [CANARY] * 60
            root = ET.fromstring(svg.chart(CANARY, CANARY, plot, labels, labels))
            assert root.find("title").text == CANARY
            places = [float(e.get(name)) for e in root.iter() for name in ("x", "y") if e.get(name)]
            assert min(places) >= 0
            assert max(places) <= svg.WIDTH
        ticks = [label for _, label in axis.ticks]
        assert 2 <= len(ticks) <= len(TIME_TICKS)
        assert len(set(ticks)) == len(ticks)
    ET.fromstring(svg.sparkline([value or 0 for value in values], CANARY))


NIGHT = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)


def test_each_chart_says_in_words_what_it_shows():
    slow = Point(NIGHT, 0, waited=Quantiles(10, math.inf))
    point = Point(NIGHT, 1200, 3, 1, 40, 90, Quantiles(0.01, 3), Quantiles(0.3, 3600))
    throughput, failures, waited, ran, backlog = charts([slow, point], "hour")
    assert throughput.text == "1,200 jobs completed, 600 a minute."
    assert failures.text == "3 attempts failed (< 1 % of all), 1 job buried."
    assert waited.text == (
        "At 00:30: half under 10 ms, 95 of 100 under 3 s. Slowest at 00:30: 95 of 100 over 1 h."
    )
    assert ran.text == "At 00:30: half under 300 ms, 95 of 100 under 1 h."
    assert backlog.text == "40 jobs at the last count, 90 at most."
    rare = charts([Point(NIGHT, 1), *[Point(NIGHT)] * 59], "hour")
    assert rare[0].text == "1 job completed, 1 an hour."
    assert [one.kind for one in failures.legend] == ["buried", "failed"]
    assert [list(one.values) for one in failures.legend] == [[0, 1], [0, 2]]
    assert all("Nothing is known" in one.text for one in charts([Point(NIGHT)], "week")[2:])


def test_what_is_told_as_a_bound_is_one(browser):
    """All ran for 2.95 seconds, and waited for two hours."""
    minute(1, completed=100, ran_5=100, waited_12=100)
    page = browser.get("/admin/dbqueue/queue/").content.decode()
    assert re.findall(r"(?:under|over) [^<]*", page) == ["over 1 h", "under 3 s"]
    charts_page = browser.get("/admin/dbqueue/queue/charts/?table=queueapp.note").content.decode()
    assert "half under 3 s, 95 of 100 under 3 s" in charts_page
    assert "half over 1 h, 95 of 100 over 1 h" in charts_page


def test_no_number_is_too_long_for_the_edge_of_a_chart():
    for most in (*range(1, 100), 10**4, 123456, 10**9, 2**63):
        labels = [label for _, label in svg.linear(most, short_number).ticks]
        assert len({*labels}) == len(labels) > 1
        assert max(map(len, labels)) <= 7 or most == 2**63
    assert [short_number(it) for it in (999, 1000, 1500, 10**10)] == ["999", "1 k", "1.5 k", "10 G"]
    told = [short_time(it) for it in (0.0099, 0.9994, 0.9996, 9.96, 119, 120, 7199, 7200)]
    assert told == ["9.9 ms", "999 ms", "1 s", "10 s", "119 s", "2 min", "120 min", "2 h"]


def test_what_is_not_nothing_is_seen_and_what_goes_on_is_paler():
    series = [svg.Series("a", "done", [10**9, 0]), svg.Series("b", "failed", [1, 1])]
    drawn = ET.fromstring(f"<g>{svg.bars(series, svg.linear(10**9, short_number))}</g>")
    kinds = [bar.get("class") for bar in drawn]
    assert kinds == ["dbqueue-done", "dbqueue-failed", "dbqueue-failed dbqueue-unfinished"]
    assert all(float(bar.get("height")) >= svg.THIN for bar in drawn)


def points_from(start, span):
    count, step = CHARTED[span]
    return [Point(start + timedelta(minutes=n * step), 1) for n in range(count)]


def marks(points, span):
    """The labels under the axis of time."""
    root = ET.fromstring(charts(points, span)[0].picture)
    return [e.text for e in root.iter("text") if e.get("text-anchor") == "middle"]


@pytest.mark.parametrize("use_tz", [True, False])
def test_times_are_those_of_the_project_even_in_the_night_that_has_an_hour_twice(settings, use_tz):
    settings.TIME_ZONE, settings.USE_TZ = "Europe/Berlin", use_tz
    autumn = points_from(datetime(2026, 10, 24, 17, 15, tzinfo=UTC), "day")
    told = names(autumn, "day")
    assert len({*told}) == 96
    assert {"02:30 CEST", "02:30 CET"} <= {*told}
    assert marks(autumn, "day") == ["Sun", "06:00", "12:00", "18:00"]
    spring = points_from(datetime(2026, 3, 29, 0, 31, tzinfo=UTC), "hour")
    assert marks(spring, "hour") == ["01:45", "03:00", "03:15", "03:30"]
    assert names(spring, "hour")[28:30] == ["01:59 CET", "03:00 CEST"]
    midnight = points_from(datetime(2026, 6, 1, 21, 50, tzinfo=UTC), "hour")
    assert marks(midnight, "hour") == ["00:00", "00:15", "00:30", "00:45"]
    quiet = points_from(datetime(2026, 6, 1, 22, 0, tzinfo=UTC), "week")
    assert names(quiet, "week")[:2] == ["Tue 00:00", "Tue 02:00"]
    assert marks(quiet, "week") == ["Wed", "Thu", "Fri", "Sat", "Sun", "Mon"]


def test_days_begin_when_they_do_here(settings):
    settings.TIME_ZONE = "Asia/Kathmandu"  # 5:45 ahead
    week = points_from(datetime(2026, 6, 1, 0, 0, tzinfo=UTC), "week")
    assert names(week, "week")[9:11] == ["Mon 23:45", "Tue 01:45"]
    assert marks(week, "week") == ["Tue", "Wed", "Thu", "Fri", "Sat", "Sun", "Mon"]


@pytest.mark.parametrize("span", ["hour", "day", "week", "nonsense"])
def test_the_page_shows_charts_and_a_table_with_the_same_figures(browser, span):
    Queue.objects.pause("queueapp_note", CANARY, None, "x")
    write_history("default", "queueapp_note", CANARY)
    page = browser.get(PAGE, {"table": "queueapp.note", "queue": CANARY, "span": span})
    text = page.content.decode()
    assert text.count('<svg class="dbqueue-chart"') == 5
    assert "<script>alert" not in text
    assert text.count('<th scope="row">') == {"day": 96, "week": 84}.get(span, 60)
    assert "style=" not in text.partition("dbqueue-charts")[2].partition("</main>")[0]


def test_the_number_of_queries_does_not_grow_with_the_minutes(browser):
    def queries():
        with CaptureQueriesContext(connection) as captured:
            response = browser.get(PAGE, {"table": "queueapp.note", "span": "week"})
        assert response.status_code == 200
        return len(captured)

    minute(0, completed=1, backlog=5)
    few = queries()
    columns = [field.column for field in Minute._meta.fields if not field.primary_key]
    into, of = ", ".join(columns), ", ".join(columns).replace("minute", "minute - %s")
    with connection.cursor() as cursor:
        for power in range(14):
            sql = f"INSERT INTO dbqueue_minute ({into}) SELECT {of} FROM dbqueue_minute"
            cursor.execute(sql, [2**power])
    assert Minute.objects.count() == 16384
    assert queries() == few
    points = history("default", "queueapp_note", None, "week")
    assert {(point.completed, point.peak) for point in points[1:-1]} == {(120, 5)}


def test_the_newest_figures_come_first_and_may_grow(browser):
    minute(0, completed=77)
    page = browser.get(PAGE, {"table": "queueapp.note", "span": "week"}).content.decode()
    first, second = re.findall(r'<tr><th scope="row">(.*?)</tr>', page)[:2]
    assert ", so far" in first
    assert "<td>77</td>" in first
    assert ", so far" not in second
    start = datetime.fromisoformat(re.search('datetime="(.*?)"', first)[1])
    assert f">{start:%a %H:%M}</time>" in first


def test_a_queue_of_which_nothing_is_known_says_so(browser):
    minute(90, completed=1)
    asked = {"table": "queueapp.note", "queue": "default"}
    text = browser.get(PAGE, asked).content.decode()
    assert "Nothing was recorded in this time: no worker served this queue" in text
    assert "dbqueue-chart" not in text.partition("</head>")[2]
    assert "dbqueue-chart" in browser.get(PAGE, {**asked, "span": "day"}).content.decode()
    text = browser.get(PAGE, {**asked, "queue": CANARY}).content.decode()
    assert "No queue of this name is known" in text
    assert "<script>alert" not in text


def test_a_page_leads_to_the_jobs_only_of_who_may_see_them(people):
    asked = {"table": "queueapp.note", "queue": "a&b"}
    link = 'href="/admin/queueapp/note/?queue=a%26b"'
    assert link in people("view_queue", "view_note").get(PAGE, asked).content.decode()
    assert link not in people("view_queue").get(PAGE, asked).content.decode()


def test_a_database_that_is_away_is_told_where_the_charts_would_be(browser, settings):
    away = Away(Note)
    settings.DATABASE_ROUTERS = [away]
    try:
        page = text_of(browser.get(PAGE, {"table": "queueapp.note", "queue": "a&b"}))
    finally:
        settings.DATABASE_ROUTERS = []
        away.end()
    region = page.partition('data-dbqueue-region="charts"')[2]
    assert "queueapp.note cannot be asked: unable to open database file" in region


def test_what_is_none_is_not_found_and_who_may_not_look_is_refused(browser, people, client):
    page = browser.get(PAGE, {"table": CANARY})
    assert page.status_code == 404
    assert "is no queue table" in page.content.decode()
    assert "<script>alert" not in page.content.decode()
    page = browser.get(PAGE, {"table": "queueapp.note", "queue": "a\0b"})
    assert page.status_code == 404
    assert "No queue can have this name" in page.content.decode()
    assert browser.post(PAGE, {"table": "queueapp.note"}).status_code == 405
    assert people("view_note").get(PAGE).status_code == 403
    assert people("view_queue").get(PAGE).status_code == 200
    client.logout()
    assert client.get(PAGE).url.startswith("/admin/login/")
