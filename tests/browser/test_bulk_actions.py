"""All that match, however many, from the list to the page of the job that does it."""

import pytest

from django_dbqueue.admin import matching
from django_dbqueue.bulk.models import BulkAction
from django_dbqueue.states import Status
from tests.browser.chrome import PHONE
from tests.browser.pages import BULK_ACTION, NOTE, page_of
from tests.browser.test_flows import choose, said, scripts
from tests.kit.bulk import rows as make
from tests.kit.bulk import worked_off
from tests.queueapp.models import Note

__all__ = ["scripts"]

pytestmark = pytest.mark.usefixtures("rows")


@pytest.mark.parametrize("action", ["move_selected", "cancel_selected"])
def test_all_that_match_are_changed_by_a_job(browse, keep_picture, monkeypatch, scripts, action):
    monkeypatch.setattr(matching, "ROWS_MAX", 20)
    make(30, Status.BURIED, queue="letters")
    page = browse(f"{NOTE}?state=4&queue=letters", scripts=scripts)
    page.locator("input[name=everything]").first.check()
    choose(page, action)
    keep_picture(page, f"as-job-{action}")
    if scripts:  # without them axe's own timers may stand still, and it never answers
        assert page.inaccessible() == []
    page.look_like("light", PHONE)
    assert page.overflow() <= 0
    if action == "move_selected":
        page.get_by_label("To queue").fill("parcels")
    with page.expect_navigation():
        page.get_by_role("button", name="Do it as a job").click()
    row = BulkAction.objects.get()
    assert f"bulk action {row.pk} does it to all that match" in said(page)
    assert page.url.endswith(page_of(BULK_ACTION, row))
    worked_off(row)
    page.reload()
    assert "30 of 30 (100 %): 30 changed" in page.locator("#content").inner_text()
    left = Note.objects.filter(queue="letters").count()
    assert left == 0
