"""The table of recipients: written with each email, and gone with it, whoever deletes that."""

import re
from contextlib import nullcontext

import pytest
from django.core.mail import send_mass_mail
from django.core.management import call_command
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_dbqueue.exceptions import QueueFull
from django_dbqueue.fields import DbNow
from django_dbqueue.lifecycle import archive, operator
from django_dbqueue.mail import finding
from django_dbqueue.mail import rows as mail_rows
from django_dbqueue.mail.models import ArchivedEmail, Email, Recipient, recipient
from django_dbqueue.mail.models.recipient import digest_of
from django_dbqueue.mail.models.suppression import normal
from django_dbqueue.states import Status
from tests.kit.bounds import limits
from tests.kit.jobs import fresh, in_thread, overwrite, start_all, table
from tests.kit.mail import archived, finished, in_archive, in_state, letter, queue_all, queued
from tests.kit.query_plans import steps, update_statistics
from tests.lifecycle.test_keys import read_what_was

pytestmark = [
    pytest.mark.usefixtures("db_rows", "queueing"),
    pytest.mark.each_database,
]

ANNA = "anna@x.example"
OLD = 365 * 86400


def to(address):
    return finding.keys_to(address, "default", 100)


def rows_of(key):
    return Recipient.objects.filter(email=key).count()


@pytest.mark.parametrize(
    "spelled",
    [
        *("ANNA@X.Example", "Anna <anna@x.example>", '"Doe, Anna" <anna@x.example>'),
        *("Doe, Anna <anna@x.example>", '"anna"@x.example', " <anna@x.example> "),
    ],
)
def test_an_email_is_found_by_any_spelling_of_its_recipient(spelled):
    email = queued(ANNA)
    queued("berta")
    assert to(spelled) == [email.pk]


def test_a_domain_in_unicode_and_in_punycode_is_the_same():
    assert digest_of("anna@köln.example") == digest_of("anna@XN--KLN-SNA.example")
    assert digest_of("anna@koln.example") != digest_of("anna@köln.example")


@pytest.mark.parametrize(
    "address",
    [
        *("anna@x.example", "Anna.B+c-d_e@X-1.Example", "a@b.c", "a@xn--kln-sna.example"),
        *("a@b", "a@-.example", "a@b.example.", "a..b@x.example", "a@x.xn--p1ai", "ÄNNA@x.example"),
    ],
)
def test_the_short_way_to_a_digest_leads_to_the_same(monkeypatch, address):
    short = digest_of(address)
    monkeypatch.setattr(recipient, "PLAIN", re.compile("(?!)"))
    assert digest_of(address) == short
    assert recipient._compared(address) == normal(address)


def test_everybody_is_a_recipient_once():
    email = queued(ANNA, cc=["Anna <ANNA@x.example>", "cc@x.example"], bcc=["bcc@x.example"])
    assert [to(one) for one in (ANNA, "cc@x.example", "bcc@x.example")] == [[email.pk]] * 3
    assert rows_of(email.pk) == 3


def test_a_thousand_recipients_are_found():
    everybody = [f"n{number}@x.example" for number in range(1200)]
    email = queued(*everybody)
    assert rows_of(email.pk) == 1200
    assert to("n1199@x.example") == to("n0@x.example") == [email.pk]


def test_the_newest_are_found_first():
    keys = [queued(ANNA).pk for _ in range(4)]
    assert finding.keys_to(ANNA, "default", 3) == keys[:0:-1]


def inserting_ways():
    row = {"recipients": ANNA, "subject": "Hello"}
    return {
        "sent": lambda: letter(ANNA).send(),
        "sent at once": lambda: queue_all([letter(ANNA), letter("berta")]),
        "created": lambda: Email.objects.create(**row),
        "created with a key": lambda: Email.objects.create(**row, pk=7_000),
        "in bulk": lambda: Email.objects.bulk_create([Email(**row), Email(recipients="b@x.de")]),
        "without instances": lambda: Email.objects.enqueue_many([row]),
        "with a delay": lambda: Email.objects.enqueue(**row, delay=5),
        "with a moment of the database": lambda: Email.objects.create(**row, retry_at=DbNow()),
        "with a dedup key": lambda: Email.objects.enqueue(**row, dedup_key="a"),
    }


@pytest.mark.parametrize("way", inserting_ways())
@pytest.mark.parametrize("is_bounded", [False, True])
def test_whoever_inserts_an_email_writes_whom_it_is_for(way, is_bounded):
    # The first in a bounded queue, and those outside of transactions, are written in another way.
    with limits("dbqueue_mail.email", max_length=10 if is_bounded else None):
        queued("carla")
        with transaction.atomic() if is_bounded else nullcontext():
            inserting_ways()[way]()
    assert to(ANNA) == [Email.objects.get(recipients=ANNA).pk]


def test_of_a_twin_that_is_not_inserted_nothing_is_written():
    Email.objects.enqueue(recipients=ANNA, dedup_key="a")
    Email.objects.enqueue(recipients="berta@x.example", dedup_key="a")
    assert to("berta@x.example") == []
    assert len(to(ANNA)) == 1


def test_an_email_that_replaces_another_is_found_by_its_own_recipient():
    new = {"dedup_key": "one", "message": queued("carl").message}
    first = Email.objects.enqueue(**new, recipients=ANNA).job
    berta = "berta@x.example"
    Email.objects.enqueue(**new, recipients=berta, on_duplicate="replace")
    assert (to(ANNA), to(berta)) == ([], [first.pk])
    Email.objects.enqueue(**new, subject="News", on_duplicate="replace")
    assert to(berta) == [first.pk]


@pytest.mark.skipif(connection.vendor != "mysql", reason="an error of the others, or never so")
def test_one_that_is_younger_than_the_snapshot_may_be_replaced_by_its_like():
    given = {"dedup_key": "one", "message": queued("carl").message, "recipients": ANNA}

    def replace_late():
        read_what_was()
        with transaction.atomic():
            assert not Email.objects.filter(dedup_key="one").exists()
            first = in_thread(lambda: Email.objects.enqueue(**given).job)
            return first, Email.objects.enqueue(**given, on_duplicate="replace")

    [(first, answer)] = start_all(replace_late)
    assert (answer.job, answer.outcome, to(ANNA)) == (first, "replaced", [first.pk])


def test_an_email_that_is_sent_again_is_found_as_well():
    old = finished(letter(ANNA))
    new = old.resend()
    assert to(ANNA) == [new.pk, old.pk]


def test_they_come_and_go_with_the_callers_transaction():
    with transaction.atomic():
        letter(ANNA).send()
        assert len(to(ANNA)) == 1
        transaction.set_rollback(True)
    assert Recipient.objects.count() == 0


def test_where_they_cannot_be_written_no_email_is(monkeypatch):
    def fail(*_):
        raise QueueFull("no")

    monkeypatch.setattr(type(Email.side_rows), "write", fail)
    for send in (lambda: letter().send(), lambda: queue_all([letter(), letter()])):
        with pytest.raises(QueueFull):
            send()
    assert Email.objects.count() == 0


def statements(send):
    with CaptureQueriesContext(connection) as queries:
        send()
    verbs = [one["sql"].split()[0].upper() for one in queries]
    return [verb for verb in verbs if verb not in {"BEGIN", "COMMIT", "NOTIFY"}]


def test_a_send_is_one_statement_more_and_so_is_a_batch():
    data = [(f"S{i}", "text", "shop@x.example", [ANNA, "b@x.example"]) for i in range(20)]
    with transaction.atomic():
        assert statements(lambda: letter(ANNA).send()) == ["INSERT"] * 2
        assert statements(lambda: send_mass_mail(data)) == ["INSERT"] * 2
    assert statements(lambda: letter(ANNA).send()) == ["INSERT"] * 2


def test_an_archived_email_is_found_and_its_move_costs_nothing():
    email = finished(letter(ANNA))
    overwrite(email, retry_at=DbNow(plus=-OLD), finished_at=DbNow(plus=-OLD))
    with CaptureQueriesContext(connection) as queries:
        assert archive.archive(table(Email)) == 1
    asked = [one["sql"] for one in queries if not one["sql"].startswith("INSERT")]
    assert not [sql for sql in asked if re.search("_recipient|_archivedemail", sql)]
    assert to(ANNA) == [ArchivedEmail.objects.get().pk]


def deleting_ways():
    emails = table(Email)
    return {
        "the pruning of the archive": lambda _: archive.prune_archived(emails, 1),
        "by hand from the queue": lambda row: operator.delete(emails, [(row.pk, row.status, None)]),
        "forget_address": lambda _: call_command("forget_address", ANNA),
        "a queryset": lambda row: type(row)._default_manager.filter(pk=row.pk).delete(),
        "all of them": lambda row: type(row)._default_manager.all().delete(),
        "the instance": lambda row: row.delete(),
        "the instance's own connection": lambda row: row.delete(using="default"),
    }


@pytest.mark.parametrize("way", deleting_ways())
@pytest.mark.parametrize("is_archived", [False, True])
def test_whoever_deletes_an_email_deletes_its_recipients(way, is_archived):
    kept = in_state(Status.READY, "berta")
    row = in_archive(ANNA) if is_archived else in_state(Status.BURIED, ANNA)
    if is_archived:
        ArchivedEmail.objects.update(finished_at=DbNow(plus=-OLD))
    assert to(ANNA) == [row.pk]
    deleting_ways()[way](row)
    is_gone = not type(row)._base_manager.filter(pk=row.pk).exists()
    assert to(ANNA) == ([] if is_gone else [row.pk])
    others = Email.objects.filter(pk=kept.pk).values_list("pk", flat=True)
    assert to("berta@x.example") == list(others)
    assert is_gone or way in {"the pruning of the archive", "by hand from the queue"}


def test_what_is_cancelled_is_found_in_the_archive():
    email = queued(ANNA)
    assert Email.objects.filter(pk=email.pk).cancel().changed == 1
    assert to(ANNA) == [ArchivedEmail.objects.get().pk]


def test_a_deletion_that_is_rolled_back_leaves_them():
    email = queued(ANNA)
    with transaction.atomic():
        email.delete()
        transaction.set_rollback(True)
    assert to(ANNA) == [fresh(Email.objects.get()).pk]


def test_who_is_forgotten_is_not_found_in_what_was_to_others_too():
    email = in_state(Status.BURIED, ANNA, "berta")
    call_command("forget_address", ANNA)
    assert to(ANNA) == []
    assert to("berta@x.example") == [email.pk]


def test_what_was_stored_before_there_was_the_table_is_added_by_a_command(capsys):
    emails = [queued(ANNA), in_archive(ANNA)]
    Recipient.objects.all().delete()
    assert not finding.is_whole(Email, "default")
    assert not finding.is_whole(ArchivedEmail, "default")
    call_command("index_recipients")
    assert "2 written, 0 deleted" in capsys.readouterr().out
    assert sorted(to(ANNA)) == sorted(email.pk for email in emails)
    assert finding.is_whole(Email, "default")
    assert finding.is_whole(ArchivedEmail, "default")
    call_command("index_recipients")
    assert "0 written, 0 deleted" in capsys.readouterr().out


def test_to_look_whether_it_is_whole_reads_little_however_far_apart_emails_are():
    first, last = Email.objects.create(recipients=ANNA), Email(recipients=ANNA, pk=10_000)
    last.save()
    between = range(first.pk + 1, last.pk)
    Recipient.objects.bulk_create(Recipient(email=key, address=7) for key in between)
    update_statistics(Recipient._meta.db_table)
    assert steps(lambda: finding.is_whole(Email, "default"), Recipient._meta.db_table) < 1000


def test_a_command_that_was_stopped_has_not_made_it_whole(monkeypatch):
    for _ in range(3):
        queued(ANNA)
    Recipient.objects.all().delete()
    monkeypatch.setattr(mail_rows, "WINDOW_ROWS", 1)
    monkeypatch.setattr(finding, "LOOKED_AT", 1)

    def stop(written, _):
        if written == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        finding.index_all(stop)
    assert not finding.is_whole(Email, "default")
    finding.index_all(lambda *_: None)
    assert finding.is_whole(Email, "default")


def test_the_command_deletes_what_a_statement_by_hand_has_left(capsys):
    kept, lost = queued(ANNA), queued(ANNA)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM dbqueue_mail_email WHERE id = %s", [lost.pk])
    call_command("index_recipients")
    assert "0 written, 1 deleted" in capsys.readouterr().out
    assert to(ANNA) == [kept.pk]


def test_an_email_on_its_way_to_the_archive_keeps_them_when_a_twin_is_deleted():
    email = finished(letter(ANNA))
    old = archived(email)
    assert operator.delete(table(Email), [(email.pk, email.status, None)]).changed == 0
    assert to(ANNA) == [old.pk]
