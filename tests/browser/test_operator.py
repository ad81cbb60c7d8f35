"""What an operator does, walked through in a real browser: clicks, keys and seconds of each task.

With --full at a million mails and as many in the archive: `make operator`.
"""

import pytest
from django.contrib.admin.models import LogEntry
from django.core.management.color import no_style
from django.db import connection

from django_dbqueue.mail.models import ArchivedEmail, Email, Recipient
from django_dbqueue.models import Queue
from django_dbqueue.states import Status
from tests.browser.operator import JOB_TABLE, LOST, REFUSED_JOBS, Operator, build
from tests.browser.people import SUPERUSER

pytestmark = [pytest.mark.proof, pytest.mark.each_database]

FEW, SEED_OF_FEW = 3_000, 1_000
MANY, SEED_OF_MANY = 1_000_000, 10_000
CLICKS_MAX = 8  # for the longest of the tasks
MOVED_MAX = 10_000
ROWS_OF_A_PAGE = 50


@pytest.fixture
def scene(chrome, people, rows, full):
    people.cookie_of(SUPERUSER)  # who did what there is to be seen of people
    LogEntry.objects.all().delete()  # what other tests have done is not of this scene
    yield build(*(MANY, SEED_OF_MANY) if full else (FEW, SEED_OF_FEW))
    # Row by row as many would take minutes.
    tables = [model._meta.db_table for model in (Email, ArchivedEmail, Recipient)]
    flush = connection.ops.sql_flush(no_style(), tables, reset_sequences=True)  # so it truncates
    connection.ops.execute_sql_flush(flush)


def test_an_operator_is_done_after_a_few_clicks(browse, scene, full):
    lost, stuck = scene
    person = Operator(browse)
    look(person, lost, stuck)
    act(person)
    print(f"\n{person.table()}")
    assert max(one.clicks for one in person.took) <= CLICKS_MAX
    assert max(one.keys for one in person.took) <= 4


def look(person, lost, stuck):
    with person.task("is all well?") as page:
        page.locator("[data-dbqueue-region=verdict]", has_text="Act now").wait_for()
    with person.task("why was this mail not sent? (by its Message-ID)") as page:
        person.search(lost.message_id)
        person.click(page.locator(".dbqueue-found a", has_text="Hello").first)
        page.locator(".dbqueue-event", has_text="the mail server is away").first.wait_for()
    with person.task("what failed within the last hour, by kind?") as page:
        person.click(page.get_by_role("link", name="Failures", exact=True))
        row = page.locator(".dbqueue-failures tr", has_text="the mail server is away")
        row.locator("td", has_text="900").first.wait_for()
    with person.task("what failed within the last hour, one by one?") as page:
        person.click(page.locator("td[data-label=Buried] a").first)
        person.click(page.locator("#changelist-filter a", has_text="last hour").first)
        page.locator("#result_list .field-failed_at").first.wait_for()
    with person.task("find the mail to one address") as page:
        person.search(LOST)
        page.locator(".dbqueue-found", has_text="Hello").wait_for()
    with person.task("which worker is stuck, on what?") as page:
        slot = page.locator(".dbqueue-slots li", has_text=f"dbqueue_mail.email {stuck.pk}")
        assert "mail-3 4711" in slot.inner_text()
        person.click(slot.get_by_role("link"))
        page.locator(".dbqueue-why", has_text="mail-3").first.wait_for()
    with person.task("which mail is tried next, and when?") as page:
        person.click(page.locator("td[data-label=Delayed] a").first)
        page.locator("#result_list tbody tr").first.wait_for()
    with person.task("the oldest mail of a rare queue, for which there is no index") as page:
        person.click(page.get_by_role("link", name="Emails", exact=True).first)
        person.click(page.locator("#changelist-filter a", has_text="urgent").first)
        while (further := page.get_by_role("link", name="Look further")).count():
            person.click(further.first)
        page.locator("#result_list tbody tr").nth(ROWS_OF_A_PAGE - 1).wait_for()
    with person.task("what did others do?") as page:
        person.click(page.get_by_role("link", name="Activity", exact=True))
        page.locator("tr", has_text="Prioritize to 5").wait_for()


def act(person):
    with person.task("pause a queue") as page:
        person.click(page.get_by_role("link", name="Pause... newsletter"))
        person.click(page.locator("#id_reason"), leads=False)
        person.paste("the provider is away")
        person.click(page.get_by_role("button", name="Pause"))
        page.get_by_role("button", name="Resume newsletter").wait_for()
    assert Queue.objects.paused(JOB_TABLE) == {"newsletter"}

    with person.task(f"retry these {REFUSED_JOBS}") as page:
        row = page.locator(".dbqueue-failures tr", has_text="the mail server is away")
        person.click(row.get_by_role("button", name=f"Retry these {REFUSED_JOBS}"))
        person.click(page.get_by_role("button", name=f"Retry {REFUSED_JOBS}"))
        page.locator(".messagelist", has_text=f"{REFUSED_JOBS} changed").wait_for()

    ready = Email.objects.filter(status=Status.READY)
    number = ready.filter(queue="newsletter").count()
    with person.task("cancel all mail of a queue that is not sent yet") as page:
        row = page.locator("tr.dbqueue-queue", has_text="newsletter")
        person.click(row.locator("td[data-label=Ready] a"))
        person.act_on_all("cancel_selected")
        person.confirm()
        page.locator(".messagelist", has_text=f"{number:,} changed").wait_for()
    assert not ready.filter(queue="newsletter").exists()

    number = min(MOVED_MAX, ready.filter(queue="default").count())
    with person.task(f"move {number:,} to another queue") as page:
        row = page.locator("tr.dbqueue-queue", has_text="default").first
        person.click(row.locator("td[data-label=Ready] a"))
        person.act_on_all("move_selected")
        person.click(page.locator("[name=dbqueue-queue]"), leads=False)
        person.paste("elsewhere")
        person.confirm()
        page.locator(".messagelist", has_text=f"{number:,} changed").wait_for()
    assert ready.filter(queue="elsewhere").count() == number
