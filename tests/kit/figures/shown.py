"""What operators and machines are shown: the page, the command, the address for machines."""

import json
import re
from collections.abc import Iterator
from html import unescape
from typing import Any

from django.test import RequestFactory

from django_dbqueue.monitor.web import HEALTH, healthz_view, status_view
from tests.kit.command_line import status

ROW = re.compile(r'<tr class="dbqueue-(group|queue)">(.*?)</tr>', re.S)
CODE = re.compile(r"<code>([^<]+)</code>")
NAME = re.compile(r'<span class="dbqueue-name">([^<]*)</span>')
STATES = ("ready", "claimed", "delayed", "buried")


def machines(user: Any) -> dict[str, Any]:
    """As ``queues.json`` answers."""
    request = RequestFactory().get("/queues.json")
    request.user = user
    answer = status_view(request)
    assert answer.status_code == 200, answer.content
    document: dict[str, Any] = json.loads(answer.content)
    return document


def command() -> list[dict[str, Any]]:
    """The queues of ``dbqueue status --json``."""
    found: list[dict[str, Any]] = json.loads(status("--json"))["queues"]
    return found


def health() -> str:
    """The word of ``healthz``, looked up now."""
    HEALTH.forget()
    return healthz_view(RequestFactory().get("/healthz")).content.decode().strip()


def page(browser: Any) -> Iterator[dict[str, Any]]:
    """The queues of the operator's page, in the shape of the others."""
    html = browser.get("/admin/dbqueue/queue/").content.decode()
    table = ""
    for kind, row in ROW.findall(html):
        if kind == "group" and (label := CODE.findall(row)):
            table = label[0].partition("@")[0]
        elif 'data-label="Ready"' in row:  # no failure
            yield _row(table, unescape(NAME.findall(row)[0]), row)


def _row(table: str, queue: str, row: str) -> dict[str, Any]:
    found: dict[str, Any] = {"table": table, "queue": queue, "at_least": [], "counts": {}}
    for state in STATES:
        cell = _cell(row, state.capitalize())
        number, *below = re.findall(r">([^<>]+)<", cell)
        found["counts"][state] = int(re.sub(r"\D", "", number) or 0)  # a dash is none
        if number.endswith(("+", "?")):
            found["at_least"].append(state)
        found.setdefault("aged", {})[state] = any("ago" in text for text in below)
    [done] = re.findall(r">([\d,]+)", _cell(row, "Done, 1 h"))[:1]
    return found | {"done": int(done.replace(",", ""))}


def _cell(row: str, label: str) -> str:
    [cell] = re.findall(rf'data-label="{re.escape(label)}"(.*?)</td>', row, re.S)
    return str(cell)
