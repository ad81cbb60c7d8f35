"""The admin of a queue table that is on several databases."""

import html
import re
import shutil

import pytest
from django.db import connections
from django.db.utils import OperationalError
from django.utils import timezone

from django_dbqueue.models import Queue, Worker
from django_dbqueue.schedules.firing import run_now
from django_dbqueue.schedules.models import Schedule
from tests.kit.clusters import alias_to
from tests.kit.overview import NOTE, OVERVIEW, WORKERS, a_worker, text_of
from tests.queueapp.models import ArchivedKept, Kept, Note

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.any_database]

LIST = "/admin/queueapp/note/"
FAILURES, RETRY = f"{OVERVIEW}failures/", f"{OVERVIEW}retry/"
ARCHIVE = "/admin/queueapp/archivedkept/"
SOUTH = "?database=south"


@pytest.fixture
def south(tmp_path, migrated, monkeypatch):
    """Another database, on which the notes and others are, too."""
    for model in (Note, Kept):
        monkeypatch.setattr(model, "written_databases", classmethod(lambda _: ["default", "south"]))
    path = shutil.copy(migrated, tmp_path)
    with alias_to(f"sqlite:///{path}", "south") as alias:
        yield Note.objects.using(alias)


def test_the_page_of_the_queues_shows_each_shard_and_the_sums(browser, south):
    Note.objects.using("default").enqueue_many([{}] * 3)
    south.enqueue_many([{}] * 4)
    text = text_of(browser.get(OVERVIEW))
    assert "<dt>waiting</dt><dd>7</dd>" in text
    assert f"<code>{NOTE}@default</code>" in text
    assert f"<code>{NOTE}@south</code>" in text
    assert f'href="{LIST}?state=0&amp;queue=default&amp;database=south"' in text
    assert f"{NOTE}@south, queue default: no living worker serves it" in text
    assert f"table={NOTE}%40south&amp;queue=default" in text


def test_a_list_and_its_pages_and_buttons_are_those_of_one_shard(browser, south):
    here = Note.objects.using("default").create(text="here")
    there = south.create(text="there")
    text = text_of(browser.get(LIST))
    assert f'href="{SOUTH}"' in text
    assert f"{LIST}{here.pk}/change/" in text
    page = f"{LIST}{there.pk}/change/{SOUTH}"
    text = text_of(browser.get(page))
    assert "there" in text
    assert f'formaction="{LIST}{SOUTH}"' in text
    data = {"action": "bury_selected", "_selected_action": there.pk, "dbqueue_page": there.pk}
    response = browser.post(f"{LIST}{SOUTH}", data)
    assert response.url == page
    assert [job.state for job in (south.get(), Note.objects.using("default").get())] == [
        "buried",
        "ready",
    ]
    listed = text_of(browser.get(f"{LIST}{SOUTH}"))
    assert f"{LIST}{there.pk}/change/?_changelist_filters=database%3Dsouth" in listed


def test_a_queue_is_paused_and_charted_on_one_shard(browser, south):
    url = "/admin/dbqueue/queue/"
    query = f"?table={NOTE}%40south&queue=default"
    assert f"Pause {NOTE}@south, queue default" in text_of(browser.get(f"{url}pause/{query}"))
    data = {"table": f"{NOTE}@south", "queue": "default", "how": "good", "reason": "tea"}
    browser.post(f"{url}pause/", data)
    assert south.paused_queues() == {"default"}
    assert Note.objects.using("default").paused_queues() == set()
    browser.post(f"{url}resume/", data)
    assert south.paused_queues() == set()
    assert browser.get(f"{url}pause/?table={NOTE}&queue=default").status_code == 404
    charts = text_of(browser.get(f"{url}charts/{query}&span=hour"))
    assert f'<option value="{NOTE}@south" selected>' in charts
    assert f'href="{LIST}?queue=default&amp;database=south"' in charts
    assert Queue.objects.using("south").filter(name="default").exists()


def test_an_archive_is_that_of_one_shard(browser, south):
    keeping = Kept.objects.using("south")
    keeping.create()
    keeping.cancel()
    [archived] = ArchivedKept.objects.using("south").all()
    page = f"{ARCHIVE}{archived.pk}/change/"
    assert page not in text_of(browser.get(ARCHIVE))
    assert page in text_of(browser.get(f"{ARCHIVE}{SOUTH}"))
    assert "archived" in text_of(browser.get(f"{page}{SOUTH}"))


def test_a_deed_leads_to_its_shard_which_is_named(browser, south):
    job, *more = [south.create() for _ in range(3)]
    here = Note.objects.using("default").create()
    for url, jobs in ((LIST, [here]), (f"{LIST}{SOUTH}", [job]), (f"{LIST}{SOUTH}", more)):
        data = {"action": "bury_selected", "_selected_action": [one.pk for one in jobs]}
        browser.post(url, data)
    data = {"action": "export_selected", "_selected_action": [job.pk]}
    assert list(browser.post(f"{LIST}{SOUTH}", data))
    overview = text_of(browser.get(OVERVIEW))
    text = text_of(browser.get(f"{OVERVIEW}activity/"))
    for url, about, place in (
        (f"{LIST}{here.pk}/change/", f"note {here.pk}", "default"),
        (f"{LIST}{job.pk}/change/{SOUTH}", f"note {job.pk}", "south"),
    ):
        link = f'<a href="{url}">{about}</a>'
        assert f'{link}<span class="dbqueue-quiet">notes on {place}</span>' in text
        assert f">{about}</a> on {place}</span>" in overview
    for about in ("2 notes", "notes"):
        link = f'<a href="{LIST}{SOUTH}">{about}</a>'
        assert f'{link}<span class="dbqueue-quiet">notes on south</span>' in text
    assert "database: " not in text


def test_failures_are_told_and_put_back_to_work_on_their_shard(browser, south):
    for rows in (Note.objects.using("default"), south):
        rows.create()
        for job in rows.claim():
            job.bury("no such fish")
    text = text_of(browser.get(FAILURES))
    assert f"{NOTE}@south" in text
    listed = re.search(rf'href="({LIST}\?failure=\w+&amp;database=south&amp;state=4)"', text)
    page = text_of(browser.get(html.unescape(listed[1])))
    assert f"{LIST}{south.get().pk}/change/" in page
    [fingerprint] = south.values_list("failure", flat=True)
    until = re.search(r'name="until" value="([^"]+)"', text)[1]
    data = {"table": f"{NOTE}@south", "failure": fingerprint, "until": until, "count": 1}
    browser.post(RETRY, {**data, "confirmed": "yes"})
    states = [rows.get().state for rows in (Note.objects.using("default"), south)]
    assert states == ["buried", "ready"]


def test_a_worker_links_to_its_jobs_on_its_shard(browser, south):
    job = south.create()
    worker = a_worker()
    worker.running = {"1": [{"job": f"{NOTE} {job.pk}", "seconds": 1}]}
    worker.save(using="south", force_insert=True)
    text = text_of(browser.get(f"{WORKERS}{SOUTH}"))
    assert f"{LIST}{job.pk}/change/{SOUTH}" in text


def test_a_shard_that_is_away_is_named_and_hides_no_other(browser, south, monkeypatch):
    def refuse(*_):
        raise OperationalError("gone fishing")

    connections["south"].close()
    monkeypatch.setattr(connections["south"], "connect", refuse)
    assert "Database &#x27;south&#x27; cannot be asked: gone fishing" in text_of(
        browser.get(f"{LIST}{SOUTH}", follow=True)
    )
    text = text_of(browser.get(OVERVIEW))
    assert f"<code>{NOTE}@default</code>" in text
    assert text_of(browser.get(LIST))


def test_the_page_of_a_job_links_to_the_history_of_its_database(browser, south):
    Note.objects.using("default").create()
    there = [south.create(), south.create()][-1]
    page = text_of(browser.get(f"/admin/queueapp/note/{there.pk}/change/?database=south"))
    link = html.unescape(re.search(r'href="([^"]*history/[^"]*)"', page)[1])
    response = browser.get(link)
    assert response.status_code == 200  # not on the first database, which has no such job
    assert f"Change history: note {there.pk}" in text_of(response)


class SchedulesInTheSouth:
    def db_for_read(self, model, **_hints):
        return "south" if model is Schedule else None

    db_for_write = db_for_read


def test_a_schedule_leads_to_the_jobs_of_its_own_database(browser, south, settings):
    settings.DATABASE_ROUTERS = [SchedulesInTheSouth()]
    schedule = Schedule(name="nightly", timing="0 3 * * *", target="queueapp.Note")
    schedule.save(using="south")
    run_now(schedule, "a test")
    job = south.get()
    page = browser.get(f"/admin/dbqueue_schedules/schedule/{schedule.pk}/change/")
    assert f'href="{LIST}{job.pk}/change/{SOUTH}"' in text_of(page)


def crumbs_of(page):
    """The addresses of the pages above."""
    block = re.search(r'<(div|ol) class="breadcrumbs">.*?</\1>', text_of(page), re.DOTALL)[0]
    return [html.unescape(one) for one in re.findall(r'href="([^"]+)"', block)]


def test_the_pages_above_that_of_a_job_are_those_of_its_database(browser, south):
    here = Note.objects.using("default").create()
    there = [south.create(), south.create()][-1]
    above = ["/admin/", "/admin/queueapp/"]
    page, history = (f"{LIST}{there.pk}/{view}/" for view in ("change", "history"))
    assert crumbs_of(browser.get(page + SOUTH)) == [*above, LIST + SOUTH]
    assert crumbs_of(browser.get(history + SOUTH)) == [*above, LIST + SOUTH, page + SOUTH]
    filtered = "?_changelist_filters=database%3Dsouth"
    assert crumbs_of(browser.get(page + filtered)) == [*above, LIST + SOUTH]
    assert crumbs_of(browser.get(f"{LIST}{here.pk}/change/")) == [*above, LIST]


def test_the_pages_above_that_of_an_archived_job_are_those_of_its_database(browser, south):
    row = ArchivedKept(id=7, status=3, created_at=timezone.now(), finished_at=timezone.now())
    row.save(using="south")
    above = ["/admin/", "/admin/queueapp/", ARCHIVE + SOUTH]
    assert crumbs_of(browser.get(f"{ARCHIVE}7/change/{SOUTH}")) == above


def test_the_page_above_that_of_a_worker_is_the_list_of_its_database(browser, south):
    given = {"host": "web1", "pid": 1, "serves": [NOTE], "beat_at": timezone.now()}
    there = Worker.objects.using("south").create(uuid="w1", **given)
    above = ["/admin/", "/admin/dbqueue/", WORKERS + SOUTH]
    assert crumbs_of(browser.get(f"{WORKERS}{there.pk}/change/{SOUTH}")) == above
