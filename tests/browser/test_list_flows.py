"""Long lists: paging, all that match, the download, and rows that come by themselves."""

import csv
import io

import pytest

from django_dbqueue.states import Status
from tests.browser.pages import NOTE
from tests.browser.test_flows import choose, confirm, go, said, scripts
from tests.browser.test_live import is_the_first_load, live, shows, waits
from tests.kit.jobs import overwrite
from tests.queueapp.models import Note

__all__ = ["live", "scripts"]

pytestmark = pytest.mark.usefixtures("rows")


def make(count, **columns):
    Note.objects.bulk_create([Note(text=f"note {n}", **columns) for n in range(count)])
    return list(Note.objects.order_by("-pk").values_list("pk", flat=True))


def shown(page):
    boxes = page.locator("input[name=_selected_action]").all()
    return [int(box.get_attribute("value")) for box in boxes]


def test_older_and_newer_jobs_are_a_click_away(browse, scripts):
    keys = make(120)
    page = browse(NOTE, scripts=scripts)
    assert shown(page) == keys[:50]
    for step, expected in (("Older", keys[50:100]), ("Older", keys[100:]), ("Newer", keys[50:100])):
        with page.expect_navigation():
            page.get_by_role("navigation", name="Pages").get_by_role("link", name=step).click()
        assert shown(page) == expected


def test_all_that_match_are_buried_and_no_others(browse, scripts):
    make(60, queue="letters")
    make(2, queue="parcels")
    page = browse(f"{NOTE}?queue=letters", scripts=scripts)
    if scripts:
        page.check("#action-toggle")
        page.locator(".actions .question a").first.click()
        choose(page, "bury_selected")
    else:
        # Without scripts there is no link to choose those that are not shown.
        choose(page, "bury_selected", *Note.objects.filter(queue="letters").order_by("-pk")[:50])
    if "60" in page.locator("#content").inner_text() and not page.locator(".messagelist").count():
        confirm(page)
    buried = Note.objects.filter(status=Status.BURIED)
    assert "changed" in said(page)
    assert buried.count() == (60 if scripts else 50)
    assert not buried.filter(queue="parcels").exists()


def test_chosen_jobs_are_downloaded_as_a_table(browse, scripts):
    first, *_ = make(3)
    page = browse(NOTE, scripts=scripts)
    page.check(f"input[name=_selected_action][value='{first}']")
    page.locator("select[name=action]").first.select_option("export_selected")
    with page.expect_download() as download:
        go(page)
    text = download.value.path().read_text()
    [row] = csv.DictReader(io.StringIO(text))
    assert row["id"] == str(first)


def test_a_new_job_is_shown_without_a_reload_and_can_be_chosen(live):
    Note.objects.create(queue="letters")
    page = live(NOTE)
    job = Note.objects.create(queue="parcels")
    page.check(f"input[name=_selected_action][value='{job.pk}']")
    assert is_the_first_load(page)
    # Django's script counts what is chosen: it was told of the new rows.
    page.locator(".action-counter", has_text="1 of 2").first.wait_for()


def test_nothing_changes_while_a_job_is_chosen(live):
    job = Note.objects.create(queue="letters")
    page = live(NOTE)
    page.check(f"input[name=_selected_action][value='{job.pk}']")
    waits(page, "chosen")
    other = Note.objects.create(queue="parcels")
    overwrite(other, queue="boxes")
    assert shown(page) == [job.pk]
    page.uncheck(f"input[name=_selected_action][value='{job.pk}']")
    shows(page, "boxes")


def test_nothing_changes_while_somebody_types(live):
    job = Note.objects.create(queue="letters")
    page = live(NOTE)
    page.locator("select[name=action]").first.focus()
    waits(page, "field")
    Note.objects.create(queue="parcels")
    assert shown(page) == [job.pk]
    page.evaluate("document.activeElement.blur()")
    shows(page, "parcels")
