"""What the tests of the admin's lists share: rows in every state, and ways through a list."""

import html
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from django_dbqueue.fields import DbNow
from django_dbqueue.states import Status
from tests.queueapp.models import Note

NOTES = "/admin/queueapp/note/"
START = datetime(2030, 1, 1, tzinfo=UTC)
FAILED = Status.BURIED
MOVES = {Status.CLAIMED, Status.DELAYED}


def fill(
    number: int, states: Iterable[Status] = tuple(Status), was_now: bool = False, **columns: Any
) -> list[Note]:
    """So many rows of each state, many of them with equal times and priorities; a failed one in
    five does not say when. Those times are in the future, unless they were ``was_now``."""
    rows = [
        Note(
            status=status,
            queue=f"q{n % 3}",
            priority=n % 2,
            owner="w.1" if status == Status.CLAIMED else None,
            retry_at=START + timedelta(seconds=n % 4) if status in MOVES else None,
            failed_at=START + timedelta(seconds=n % 4) if status == FAILED and n % 5 else None,
            **columns,
        )
        for n in range(number)
        for status in states
    ]
    QuerySet[Note](Note).bulk_create(rows)
    if was_now:
        QuerySet[Note](Note).exclude(failed_at=None).update(failed_at=DbNow(plus=-1))
    # MySQL does not tell the keys of many rows.
    return list(QuerySet[Note](Note).order_by("-pk")[: len(rows)])[::-1]


def text_of(response: Any) -> str:
    assert response.status_code == 200, response.status_code
    return str(response.content.decode())


def keys_in(page: str) -> list[int]:
    return [int(key) for key in re.findall(r"/note/(\d+)/change/", page)]


def step(page: str, name: str) -> str | None:
    """Where a link of this name leads, or None."""
    found = re.search(rf'<a href="([^"]*)"[^>]*>{name}[^<]*</a>', page)
    return html.unescape(found[1]) if found else None


def walk(
    browser: Any, query: str | None, name: str, most: int = 200
) -> tuple[list[list[int]], str]:
    """The keys on each page, by the link of this name, and the last page."""
    pages = []
    while query is not None:
        page = text_of(browser.get(NOTES + query))
        pages.append(keys_in(page))
        query = step(page, name)
        assert len(pages) < most
    return pages, page


def act(browser: Any, action: str, *jobs: Any, query: str = "", **more: Any) -> str:
    data = {"action": action, "_selected_action": [job.pk for job in jobs], **more}
    return text_of(browser.post(NOTES + query, data, follow=True))


def act_on_all(browser: Any, action: str, query: str = "", **more: Any) -> str:
    return act(browser, action, query=query, everything="on", index="0", **more)


def sent_by(page: str) -> dict[str, list[str]]:
    """What the page's form sends, as a browser has it."""
    form: Any = re.search(r'<form method="post">(.*?)</form>', page, re.DOTALL)
    found: dict[str, list[str]] = {}
    for field in re.findall(r"<input [^>]*>", form[1]):
        name = re.search(r'name="([^"]*)"', field)
        if name and "checkbox" not in field:
            value = re.search(r'value="([^"]*)"', field)
            found.setdefault(name[1], []).append(html.unescape(value[1]) if value else "")
    return found


def confirm_all(browser: Any, action: str, query: str = "", url: str = NOTES, **values: Any) -> str:
    """What is said once somebody was asked about all that match, and gave the values."""
    data = {"action": action, "_selected_action": [], "everything": "on", "index": "0"}
    page = text_of(browser.post(url + query, data, follow=True))
    if '<dl class="dbqueue-asked">' not in page:  # none did
        return page
    return text_of(browser.post(url + query, sent_by(page) | values, follow=True))
