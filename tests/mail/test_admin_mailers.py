"""Mailers and suppressed addresses in the admin."""

import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry

from django_dbqueue.mail.models import Mailer, Suppression
from django_dbqueue.mail.models.suppression import Reason
from tests.kit.mail import setting
from tests.kit.mail_admin import (
    MAILERS,
    SUPPRESSIONS,
    act,
    text_of,
)

pytestmark = pytest.mark.usefixtures("db_rows", "queueing")


def test_mailers_are_listed_with_what_is_used_of_their_limits(browser: Any, settings: Any) -> None:
    setting(settings, MAIL_LIMITS={"smtp": {"minute": 14, "day": 50_000}, "bad": {"week": 1}})
    Mailer.objects.ask("smtp", 3, "default")
    Mailer.objects.named("bad")
    Mailer.objects.named("free")
    page = text_of(browser.get(MAILERS))
    assert "14 a minute, 50,000 a day" in page
    assert "3 of 14 (minute), 3 of 50,000 (day)" in page
    assert "a period is one of" in page
    assert re.search(r'field-limits">none<', page)


def test_a_mailer_is_paused_and_resumed_and_never_edited(people: Any) -> None:
    browser = people("view_mailer", "change_mailer")
    row = Mailer.objects.named("smtp")
    page = act(browser, "pause_selected", row, url=MAILERS)
    assert "by user0, in the admin" in page
    assert 290 < Mailer.objects.named("smtp").rest <= 300
    assert Mailer.objects.ask("smtp", 1, "default") > 290
    act(browser, "resume_selected", row, url=MAILERS)
    assert Mailer.objects.named("smtp").rest == 0
    changes = [entry.change_message for entry in LogEntry.objects.order_by("pk")]
    assert changes == [
        f"{verb}; rows: 1; filters: none" for verb in ("Paused for 5 minutes", "Resumed")
    ]
    assert browser.post(f"{MAILERS}{row.pk}/change/", {"name": "other"}).status_code == 403
    assert browser.get(f"{MAILERS}add/").status_code == 403
    assert browser.post(f"{MAILERS}{row.pk}/delete/", {"post": "yes"}).status_code == 403
    assert Mailer.objects.get().name == "smtp"


@pytest.mark.parametrize("action", ["pause_selected", "resume_selected"])
def test_of_a_mailer_that_has_gone_nothing_is_said_to_be_done(browser: Any, action: str) -> None:
    page = act(browser, action, Mailer(pk=10**6), url=MAILERS)
    assert re.search(r'<li class="warning">[^<]*: none</li>', page)
    assert not LogEntry.objects.exists()


def test_an_address_is_suppressed_as_it_is_compared(people: Any) -> None:
    browser = people("view_suppression", "add_suppression")
    data = {"address": " Anna <ANNA@x.Example> ", "reason": "by hand", "note": "asked"}
    assert browser.post(f"{SUPPRESSIONS}add/", data).status_code == 302
    assert Suppression.objects.get().address == "anna@x.example"
    for twin in ("anna@X.example", "nobody", "", "x" * 400 + "@x.example"):
        page = text_of(browser.post(f"{SUPPRESSIONS}add/", data | {"address": twin}))
        assert "errorlist" in page, twin
    assert Suppression.objects.count() == 1
    assert LogEntry.objects.count() == 1


def test_suppressions_are_found_by_the_whole_address_and_by_reason(browser: Any) -> None:
    Suppression.objects.suppress("anna@x.example", Reason.BOUNCE)
    Suppression.objects.suppress("bert@x.example", Reason.BY_HAND)
    for query, found in [
        ({"q": " ANNA@x.example"}, ["anna"]),
        ({"q": "Anna <anna@x.example>"}, ["anna"]),
        ({"q": "x.example"}, []),
        ({"reason__exact": "by hand"}, ["bert"]),
        ({}, ["anna", "bert"]),
    ]:
        page = text_of(browser.get(SUPPRESSIONS, query))
        assert [n for n in ("anna", "bert") if f">{n}@x.example</a>" in page] == found, query


def test_a_suppression_is_deleted_and_not_changed(people: Any) -> None:
    browser = people("view_suppression", "change_suppression", "delete_suppression")
    Suppression.objects.suppress("anna@x.example", Reason.BOUNCE)
    row = Suppression.objects.get()
    url = f"{SUPPRESSIONS}{row.pk}"
    assert browser.post(f"{url}/change/", {"address": "b@x.example"}).status_code == 403
    assert browser.post(f"{url}/delete/", {"post": "yes"}).status_code == 302
    assert not Suppression.objects.exists()
