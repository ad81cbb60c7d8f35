"""How long a mail keeps its message and its row, and who erases and deletes them."""

import logging
from datetime import timedelta

import pytest
from django.db.models import QuerySet
from django.utils import timezone

from django_dbqueue.lifecycle import archive, sweep
from django_dbqueue.lifecycle.archive import on_unlocked
from django_dbqueue.mail.conf import mail_conf
from django_dbqueue.mail.models import ArchivedEmail, Email
from django_dbqueue.mail.privacy import erase
from django_dbqueue.states import Status
from django_dbqueue.worker import reaper as core
from tests.kit.connections import other_connection
from tests.kit.inline_worker import work_off
from tests.kit.jobs import fresh, overwrite, reaper, start_all, table
from tests.kit.mail import (
    MEMORY,
    archived_all,
    deliver_to,
    email_of,
    exists,
    letter,
    queued,
    setting,
)
from tests.queueapp.models import Note

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.each_database]

HOUR = 3600
MAINTENANCE = core.MAINTENANCE["dbqueue_mail.email"]  # as the project has them


@pytest.fixture(autouse=True)
def keep_a_day(settings, monkeypatch):
    setting(settings, MAIL_KEEP_BODIES=24 * HOUR)
    monkeypatch.setitem(core.MAINTENANCE, "dbqueue_mail.email", erase.Eraser())


def hours_ago(hours):
    return timezone.now() - timedelta(hours=hours)


def ended(status, hours, count=1):
    """Mail in a state since some hours."""
    Email.objects.bulk_create([email_of(letter(f"a{number}")) for number in range(count)])
    made = Email.objects.order_by("-pk")[:count]
    keys = [email.pk for email in made]
    QuerySet(Email).filter(pk__in=keys).update(status=status, finished_at=hours_ago(hours))
    return list(Email.objects.filter(pk__in=keys).order_by("pk"))


def old_archive(hours, count=1):
    return archived_all(ended(Status.DONE, hours, count))


def erased(rows):
    rows = list(map(fresh, rows))
    assert all(row.is_erased == (row.message == "") for row in rows)
    return [row.is_erased for row in rows]


def passes(count, *models):
    """So many looks of the reaper for what is to be kept."""
    one = reaper(*models or [Email])
    for _ in range(count):
        one.clean_at.clear()
        done, _ = one.turn(judge=lambda: False)
    return done


def test_old_messages_are_erased_and_their_rows_stay():
    old, young = old_archive(25), old_archive(23)
    assert passes(1).tidied == 1
    assert (erased(old), erased(young)) == ([True], [False])
    row = fresh(old[0])
    assert (row.recipients, row.subject, row.status) == ("a0@x.example", "", Status.DONE)


def test_mail_that_ended_in_the_queue_table_is_erased_too_sent_or_failed():
    sent, failed = ended(Status.DONE, 25), ended(Status.BURIED, 25)
    passes(1)
    assert (erased(sent), erased(failed)) == ([True], [True])


def test_mail_that_a_worker_buried_has_an_end_to_count_from():
    queued()
    [claimed] = Email.objects.claim()
    claimed.bury("no such user")
    assert fresh(claimed).finished_at is not None


def test_mail_that_was_not_sent_keeps_its_message_however_old_it_is():
    # A time of an earlier end is no end: somebody has put it back to work.
    waiting = [ended(status, 999)[0] for status in (Status.READY, Status.DELAYED)]
    queued()
    [claimed] = Email.objects.claim()
    passes(2)
    assert erased([*waiting, claimed]) == [False] * 3


def test_without_the_setting_everything_is_kept(settings):
    setting(settings, MAIL_KEEP_BODIES=0)
    old = old_archive(99_999)
    assert passes(2).tidied == 0
    assert erased(old) == [False]


def test_many_messages_are_erased_in_chunks_and_the_reaper_asks_for_its_next_turn_at_once():
    old_archive(25, 507)
    one = reaper(Email)
    turns = [one.turn(judge=lambda: False) for _ in range(2)]
    assert [done.tidied for done, _ in turns] == [500, 7]
    assert turns[0][1] == 0.0
    assert not ArchivedEmail.objects.filter(is_erased=False).exists()


def test_the_queue_table_is_gone_through_in_windows_once_an_hour(monkeypatch):
    monkeypatch.setattr(sweep, "WINDOW_ROWS", 10)
    old = ended(Status.DONE, 25, 25)
    assert [passes(1).tidied for _ in range(4)] == [10, 10, 5, 0]
    later = ended(Status.DONE, 25)
    passes(3)
    assert erased([*old, *later]) == [True] * 25 + [False]
    monkeypatch.setattr(sweep, "SWEEP_SECONDS", 0.0)
    core.MAINTENANCE["dbqueue_mail.email"]._sweep._rests_until.clear()  # type: ignore[attr-defined]
    overwrite(old[0], is_erased=False, message="again")
    passes(3)
    assert erased([old[0], *later]) == [True, True]


def test_more_old_mail_than_a_chunk_in_one_window_is_left_for_the_next_look(monkeypatch):
    monkeypatch.setattr(sweep, "CHUNK", 4)
    old = ended(Status.BURIED, 25, 10)
    assert [passes(1).tidied for _ in range(4)] == [4, 4, 2, 0]
    assert all(erased(old))


def test_mail_that_was_put_back_to_work_meanwhile_keeps_its_message(monkeypatch):
    [mail] = ended(Status.BURIED, 25)
    unlocked = on_unlocked

    def kick_first(*args):
        Email.objects.all().kick()
        return unlocked(*args)

    monkeypatch.setattr(erase, "on_unlocked", kick_first)
    passes(1)
    assert erased([mail]) == [False]
    assert fresh(mail).status == Status.READY


def test_rows_that_a_transaction_holds_are_left_and_not_waited_for():
    rows = old_archive(25, 3)
    other = other_connection()
    if not other.features.has_select_for_update_skip_locked:
        pytest.skip("its writers lock the whole database")
    try:
        with other.cursor() as cursor:
            other.set_autocommit(False)
            name = ArchivedEmail._meta.db_table
            cursor.execute(f"UPDATE {name} SET subject = 'x' WHERE id = %s", [rows[1].pk])
        assert passes(1).tidied == 2
    finally:
        other.rollback()  # else the server keeps the lock until it hears that we are gone
        other.close()
    assert erased(rows) == [True, False, True]
    assert passes(1).tidied == 1


def test_several_reapers_erase_each_message_once():
    old_archive(25, 700)

    def work():
        return sum(passes(1).tidied for _ in range(4))

    assert sum(start_all(*[work] * 4)) == 700


@pytest.mark.parametrize("problem", [KeyError("x"), SystemExit(3)])
def test_maintenance_that_raises_is_said_once_and_the_other_tables_have_their_turn(
    monkeypatch, caplog, problem
):
    def broken(table):
        raise problem

    old = old_archive(25)
    monkeypatch.setitem(core.MAINTENANCE, "queueapp.note", broken)
    with caplog.at_level(logging.WARNING, "django_dbqueue"):
        passes(2, Note, Email)
    assert erased(old) == [True]
    said = [
        r for r in caplog.records if "the maintenance of queueapp.note failed" in r.getMessage()
    ]
    assert len(said) == 1


def test_a_setting_that_makes_no_sense_stops_no_reaper(settings, caplog):
    settings.DBQUEUE = {"MAIL_KEEP_BODIES": "soon"}
    passes(1)
    assert "MAIL_KEEP_BODIES" in caplog.text


def test_a_worker_erases_next_to_its_work(settings):
    old = old_archive(25)
    queued("anna")
    deliver_to(settings, 0, MEMORY, MAIL_KEEP_BODIES=HOUR)
    work_off("dbqueue_mail.email")
    assert erased(old) == [True]
    assert Email.objects.done().count() == 1


@pytest.fixture
def keep_rows_a_day(settings, monkeypatch):
    setting(settings, MAIL_KEEP_BODIES=0, MAIL_KEEP_ROWS=24 * HOUR)
    monkeypatch.setitem(
        core.MAINTENANCE, "dbqueue_mail.email", sweep.FailedPruner(lambda: mail_conf["KEEP_ROWS"])
    )


def test_failed_mail_is_deleted_when_it_is_old(keep_rows_a_day):
    [old], [young], [sent] = (
        ended(Status.BURIED, 25),
        ended(Status.BURIED, 23),
        ended(Status.DONE, 25),
    )
    waiting = [ended(status, 999)[0] for status in (Status.READY, Status.CLAIMED, Status.DELAYED)]
    assert passes(1).tidied == 1
    assert not exists(old)
    assert all(map(exists, [young, sent, *waiting]))


def test_failed_mail_stays_where_rows_are_kept_for_good(keep_rows_a_day, settings):
    setting(settings, MAIL_KEEP_ROWS=0)
    [old] = ended(Status.BURIED, 99_999)
    assert passes(2).tidied == 0
    assert exists(old)


def test_failed_mail_that_was_put_back_to_work_meanwhile_is_not_deleted(
    keep_rows_a_day, monkeypatch
):
    [mail] = ended(Status.BURIED, 25)
    unlocked = on_unlocked

    def kick_first(*args):
        Email.objects.all().kick()
        return unlocked(*args)

    monkeypatch.setattr(archive, "on_unlocked", kick_first)
    assert passes(1).tidied == 0
    assert fresh(mail).status == Status.READY


def test_a_worker_deletes_old_failed_mail_next_to_its_work(settings, monkeypatch):
    monkeypatch.setattr(sweep, "SWEEP_SECONDS", 0.0)
    [old] = ended(Status.BURIED, 25)
    queued("anna")
    deliver_to(settings, 0, MEMORY, MAIL_KEEP_ROWS=HOUR)
    core.MAINTENANCE["dbqueue_mail.email"] = MAINTENANCE
    work_off("dbqueue_mail.email")
    assert not exists(old)
    assert Email.objects.done().count() == 1


def test_the_look_for_old_messages_uses_its_index():
    if table(Email).connection.vendor != "sqlite":
        pytest.skip("the plan of a few rows tells nothing on a server")
    with table(Email).connection.cursor() as cursor:
        cursor.execute(
            "EXPLAIN QUERY PLAN SELECT id FROM dbqueue_mail_archivedemail "
            "WHERE is_erased = %s AND finished_at <= %s ORDER BY finished_at LIMIT 500",
            [False, "2020-01-01"],
        )
        [row] = cursor.fetchall()
    assert "SEARCH" in row[3]
    assert "is_erased=? AND finished_at<?" in row[3]
