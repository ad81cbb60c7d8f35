"""Schedules that are declared in code."""

import math
from datetime import UTC, date, datetime, timedelta

import pytest
from django.conf import settings
from django.db import connection
from django.db.models import ProtectedError
from django.db.models.signals import pre_delete, pre_save
from django.db.utils import DataError
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_dbqueue.dialects.types import RowsLocked
from django_dbqueue.schedules import schedule, synchronise
from django_dbqueue.schedules.checks import check_declared
from django_dbqueue.schedules.declared import DECLARED
from django_dbqueue.schedules.models import Schedule, as_utc
from django_dbqueue.testing import virtual_clock
from testproject.shop.models import Thumbnail
from tests.kit.bounds import limits
from tests.kit.schedules import START, scheduled
from tests.queueapp.models import Note, Shared

pytestmark = pytest.mark.usefixtures("db_rows")


@pytest.fixture(autouse=True)
def none_declared():
    before = DECLARED[:]
    DECLARED.clear()
    yield
    DECLARED[:] = before


def synchronised(*calls, **columns):
    DECLARED.clear()
    for call in calls:
        schedule(*call, **{"time_zone": "UTC"} | columns)
    synchronise.synchronise("default")
    return list(Schedule.objects.order_by("name"))


def test_what_is_declared_is_written_once_and_again_where_it_changes():
    with virtual_clock(START) as clock:
        for _ in range(2):
            [row] = synchronised(("nightly", "0 3 * * *", Note, {"text": "x"}), queue="slow")
        assert (row.timing, row.target, row.kind) == ("0 3 * * *", "queueapp.Note", "table")
        assert (row.arguments, row.queue, row.is_declared) == ({"text": "x"}, "slow", True)
        assert as_utc(row.next_tick) == START.replace(day=16, hour=3)
        clock.move(3600)
        [same] = synchronised(("nightly", timedelta(hours=6), "queueapp.Note"), starts_at=START)
        assert (same.pk, same.timing, same.arguments) == (row.pk, "every 6 h", {})
        assert as_utc(same.next_tick) == START + timedelta(hours=6)


def test_a_pause_outlasts_a_start_and_so_does_the_next_tick():
    with virtual_clock(START) as clock:
        [row] = synchronised(("nightly", "0 3 * * *", Note), starts_at=START)
        clock.move(86400)
        [row] = synchronised(("nightly", "0 3 * * *", Note), starts_at=START)
        assert as_utc(row.next_tick) == START.replace(day=16, hour=3), "it is due, not forgotten"
        row.pause()
        [row] = synchronised(("nightly", "0 4 * * *", Note))
    assert row.is_paused
    assert row.timing == "0 4 * * *"
    assert row.next_tick is None


@pytest.mark.filterwarnings("ignore:DateTimeField Schedule.starts_at received a naive")
@pytest.mark.parametrize("start", [date(2031, 2, 1), "2031-02-01 00:00+00:00"])
def test_a_start_that_is_no_datetime_yet_is_written_and_followed(start):
    for timing in ("every 1 h", "every 2 h"):
        assert check_declared() == []
        [row] = synchronised(("nightly", timing, Note), starts_at=start)
        assert (row.timing, as_utc(row.starts_at).month) == (timing, 2)
    with CaptureQueriesContext(connection) as captured:
        synchronise.synchronise("default")
    assert [query["sql"] for query in captured if query["sql"].startswith("UPDATE")] == []


def test_what_another_worker_writes_at_the_same_moment_is_there_once(caplog):
    schedule("nightly", "0 3 * * *", Note)
    written = []

    def write_first(execute, sql, *rest):
        if sql.startswith("INSERT") and not written:
            written.append(sql)
            synchronise.synchronise("default")
        return execute(sql, *rest)

    with connection.execute_wrapper(write_first):
        synchronise.synchronise("default")
    assert written
    assert Schedule.objects.get().name == "nightly"
    assert caplog.messages == []


def test_what_is_declared_no_more_is_deleted_and_nothing_else():
    scheduled("by hand")
    synchronised(("a", "0 3 * * *", Note), ("b", "0 3 * * *", Note))
    assert [row.name for row in synchronised(("a", "0 3 * * *", Note))] == ["a", "by hand"]


def test_a_declaration_takes_over_what_was_added_by_hand():
    scheduled("nightly", "0 5 * * *")
    [row] = synchronised(("nightly", "0 3 * * *", Note))
    assert (row.timing, row.is_declared) == ("0 3 * * *", True)


def test_one_that_is_wrong_is_logged_and_keeps_the_others_from_nothing(caplog):
    rows = synchronised(("bad", "often", Note), ("good", "0 3 * * *", Note))
    assert [row.name for row in rows] == ["good"]
    assert "schedule bad is not written: timing must be" in caplog.text


def test_one_that_the_database_refuses_is_logged_and_keeps_the_others_from_nothing(
    monkeypatch, caplog
):
    real = synchronise._write

    def refuse(row, *rest):
        if row.name == "bad":
            raise DataError("out of range")
        real(row, *rest)

    monkeypatch.setattr(synchronise, "_write", refuse)
    rows = synchronised(("bad", "0 3 * * *", Note), ("good", "0 3 * * *", Note))
    assert [row.name for row in rows] == ["good"]
    assert "schedule bad is not written: DataError: out of range" in caplog.text


def test_one_that_a_row_of_the_projects_holds_on_to_stays_alone_and_that_is_logged(caplog):
    def protect(instance, **_):
        if instance.name == "held":
            raise ProtectedError("a row of the project's", set())

    synchronised(*((name, "0 3 * * *", Note) for name in ("free", "held", "other")))
    pre_delete.connect(protect, sender=Schedule)
    try:
        rows = synchronised(("new", "0 3 * * *", Note))
    finally:
        pre_delete.disconnect(protect, sender=Schedule)
    assert [row.name for row in rows] == ["held", "new"]
    [told] = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
    assert told.startswith("schedule held, which is declared no more, is not deleted: Protected")


def test_a_lock_is_told_to_the_caller_who_tries_again(monkeypatch):
    def refuse(*_):
        raise RowsLocked("not now")

    monkeypatch.setattr(synchronise, "_write", refuse)
    with pytest.raises(RowsLocked):
        synchronised(("good", "0 3 * * *", Note))


def test_a_lock_that_a_key_of_the_projects_meets_is_told_too():
    def read(_):
        raise RowsLocked("not now")

    with limits("queueapp.shared", concurrency_key=read), pytest.raises(RowsLocked):
        synchronised(("good", "0 3 * * *", Shared))


def test_one_of_another_database_is_left_to_that_one():
    assert synchronised(("elsewhere", "0 3 * * *", Note), using="other") == []


def test_one_that_moves_to_another_database_is_deleted():
    synchronised(("moves", "0 3 * * *", Note))
    assert synchronised(("moves", "0 3 * * *", Note), using="other") == []


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("x", "often", Note), "timing must be"),
        (("x", timedelta(seconds=0.5), Note), "whole seconds"),
        (("x", "0 3 * * *", "shop.Gone"), "target"),
        (("x", "0 3 * * *", 7), "target"),
        (("x", "0 3 * * *", Note, {"owner": 1}), "arguments: 'owner' is no column"),
        (("", "0 3 * * *", Note), "name: This field cannot be blank"),
        (("x", "0 3 * * *", Note, {"text": object()}), "arguments"),
        (("x", "0 3 * * *", Note, {"text": None}), "arguments: text: This field cannot be null"),
        (("x", "0 3 * * *", Note, {"seconds": math.inf}), "arguments: Out of range float"),
        (("x", "0 3 * * *", Note, {"text": "\ud800"}), "arguments: 'utf-8' codec"),
        (("x", "0 3 * * *", Note, {"text": "a\\\0"}), "arguments: Null characters are not"),
        (("x", "0 3 * * *", Note, {"created_at": "soon"}), "arguments: created_at: “soon”"),
        (("x", "0 3 * * *", Thumbnail), "arguments: photo: This field cannot be null"),
        (("x", "0 3 * * *", Thumbnail, {"photo": None}), "arguments: photo: This field cannot"),
        (("x", None, Note), "timing: This field cannot be null"),
    ],
)
def test_the_system_checks_name_what_is_wrong_with_a_declaration(call, words):
    schedule(*call)
    [error] = check_declared()
    assert error.id == "dbqueue_schedules.E001"
    assert words in error.msg


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"priority": "high"}, "priority: “high” value must be an integer"),
        ({"starts_at": "soon"}, "starts_at: “soon”"),
        ({"kind": "table", "target": None}, "target"),
    ],
)
def test_what_is_of_another_kind_is_named_with_its_field(columns, words):
    target = columns.pop("target", Note)
    schedule("x", "every 1 h", target, **columns)
    [error] = check_declared()
    assert words in error.msg


def test_a_start_without_a_time_zone_is_an_error_where_there_are_zones():
    schedule("x", "every 1 h", Note, starts_at=datetime(2031, 2, 1))
    found = check_declared()
    assert bool(found) == settings.USE_TZ
    assert "".join(error.msg for error in found).count("naive") == len(found)


def test_a_naive_time_of_a_job_is_an_error_where_there_are_zones():
    schedule("x", "every 1 h", Note, {"created_at": "2031-02-01 00:00"})
    assert bool(check_declared()) == settings.USE_TZ


def test_a_key_that_code_of_the_projects_fills_in_need_not_be_given(monkeypatch):
    schedule("x", "0 3 * * *", Thumbnail)
    assert len(check_declared()) == 1
    with monkeypatch.context() as patch:
        patch.setattr(Thumbnail, "save", fill_in)
        assert check_declared() == []
    pre_save.connect(fill_in, sender=Thumbnail)
    try:
        assert check_declared() == []
    finally:
        pre_save.disconnect(fill_in, sender=Thumbnail)


def fill_in(**_):
    raise AssertionError("nothing is saved")


def test_text_that_looks_like_nul_is_taken():
    schedule("x", "0 3 * * *", Note, {"text": "\\u0000"})
    assert check_declared() == []


def test_a_start_is_that_of_the_project_whoever_looks(settings):
    row = Schedule(name="x", timing="every 1 h", target="queueapp.Note")
    settings.USE_TZ, settings.TIME_ZONE = False, "Europe/Berlin"
    with timezone.override("Asia/Tokyo"):
        row.starts_at = datetime(2031, 1, 1)
        row.clean()
    assert row.starts_at == datetime(2031, 1, 1)
    assert row.start() == datetime(2030, 12, 31, 23, tzinfo=UTC)


def test_a_time_zone_of_none_is_the_projects():
    [row] = synchronised(("nightly", "0 3 * * *", Note), time_zone=None)
    assert (row.time_zone, row.zone) == ("", settings.TIME_ZONE)


@pytest.mark.parametrize("key", ["{photo.title}", "{photo}", lambda job: job.photo.title])
def test_the_system_checks_read_no_row_to_work_out_a_key(key):
    with limits("shop.thumbnail", rate="5/s", rate_key=key):
        schedule("thumbnails", "every 1 h", Thumbnail, {"photo": 987654})
        with connection.execute_wrapper(refuse):
            assert check_declared() == []
        schedule("late", "every 1 h", Thumbnail, {"photo": 987654, "time_to_run": 0})
        [error] = check_declared()
        assert "time_to_run must be" in error.msg


def refuse(*_):
    raise AssertionError("there is no database")


def test_the_system_checks_name_a_key_that_cannot_be_worked_out():
    with limits("shop.thumbnail", rate="5/s", rate_key="{colour}"):
        schedule("thumbnails", "every 1 h", Thumbnail, {"photo": 987654})
        [error] = check_declared()
    assert "rate_key gave no key: AttributeError" in error.msg


def test_the_system_checks_find_a_name_that_comes_twice():
    for _ in range(2):
        schedule("twin", "0 3 * * *", Note)
    assert [error.id for error in check_declared()] == ["dbqueue_schedules.E002"]
