"""Jobs as CSV: streamed, without formulas, without secrets, and recorded."""

import csv
import io
from decimal import Decimal

import pytest
from django.contrib.admin import site
from django.contrib.admin.models import LogEntry
from django.db.models import QuerySet
from django.test import RequestFactory

from django_dbqueue.admin import JobAdmin, export
from django_dbqueue.states import Status
from tests.kit.admin_lists import NOTES, fill
from tests.kit.jobs import buried, fresh
from tests.models.test_fields import plain
from tests.queueapp.models import ArchivedKept, Everything, Kept, Note, Owner

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.each_database]


def export_of(browser, *jobs, url=NOTES, **more):
    data = {"action": "export_selected", "_selected_action": [job.pk for job in jobs], **more}
    response = browser.post(url, data)
    assert response.status_code == 200
    assert response.streaming
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    return response


def rows_in(response):
    return list(csv.DictReader(io.StringIO(response.getvalue().decode())))


def test_all_that_match_go_into_the_file_piece_by_piece(browser, monkeypatch):
    monkeypatch.setattr(export, "CHUNK_ROWS", 4)
    fill(9)
    response = export_of(browser, url=f"{NOTES}?state=3&queue=q1", everything="on")
    assert [row["queue"] for row in rows_in(response)] == ["q1"] * 3
    response = export_of(browser, everything="on")
    pieces = list(response.streaming_content)
    assert len(pieces) == 1 + 12
    text = b"".join(pieces).decode()
    found = [int(row["id"]) for row in csv.DictReader(io.StringIO(text))]
    assert sorted(found) == sorted(QuerySet(Note).values_list("pk", flat=True))
    assert len(found) == 45
    said = LogEntry.objects.order_by("pk").values_list("change_message", flat=True)
    assert list(said) == [
        "export: sent 3 rows; filters: state=3&queue=q1",
        "export: sent 45 rows; filters: none",
    ]


def test_a_file_that_nobody_wants_any_more_is_recorded_as_far_as_it_went(browser, monkeypatch):
    monkeypatch.setattr(export, "CHUNK_ROWS", 4)
    fill(9, [Status.READY])
    response = export_of(browser, everything="on")
    pieces = iter(response.streaming_content)
    next(pieces), next(pieces)
    response.close()
    assert LogEntry.objects.get().change_message == "export: stopped after 4 rows; filters: none"


def test_no_cell_is_a_formula(browser):
    evil = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1", "harmless"]
    jobs = [Note.objects.create(text=text) for text in evil]
    found = {row["text"] for row in rows_in(export_of(browser, *jobs))}
    expected = {text if text == "harmless" else f"'{text}" for text in evil}
    assert {text.replace("\r\n", "\n") for text in found} == {
        text.replace("\r\n", "\n") for text in expected
    }


def test_a_number_below_zero_is_no_formula(admin_user):
    owner = Owner.objects.create()
    Everything.objects.create(an_owner=owner, **plain(a_decimal=Decimal("-5.25"), an_int=-3))
    request = RequestFactory().post("/")
    request.user = admin_user
    answer = export.export(JobAdmin(Everything, site), request, QuerySet(Everything))
    [row] = rows_in(answer)
    assert (Decimal(row["a_decimal"]), row["an_int"]) == (Decimal("-5.25"), "-3")


def test_what_a_job_holds_is_for_who_may_inspect(people):
    job = buried(text="inside")
    [row] = rows_in(export_of(people("view_note", "export_note"), job))
    assert (row["id"], row["state"], row["queue"]) == (str(job.pk), "buried", "default")
    assert not {"text", "errors", "dedup_key", "log"} & set(row)
    [row] = rows_in(export_of(people("view_note", "export_note", "inspect_note"), job))
    assert row["text"] == "inside"
    assert "for the test" in row["errors"]


def test_secrets_are_masked(browser, monkeypatch):
    monkeypatch.setattr(JobAdmin, "masked", ("text",))
    job = buried(text="inside")
    QuerySet(Note).filter(pk=job.pk).update(errors=[{"api_key": "abc", "message": "seen"}])
    [row] = rows_in(export_of(browser, fresh(job)))
    assert row["text"] == "********"
    assert "abc" not in row["errors"]
    assert "seen" in row["errors"]


def test_an_archive_is_exported_and_not_changed(browser):
    job = Kept.objects.create()
    Kept.objects.filter(pk=job.pk).cancel()
    url = "/admin/queueapp/archivedkept/"
    if browser.get(url).status_code == 404:
        from django.contrib import admin

        assert not admin.site.is_registered(ArchivedKept)
        return
    [row] = rows_in(export_of(browser, job, url=url))
    assert row["state"] == "cancelled"
