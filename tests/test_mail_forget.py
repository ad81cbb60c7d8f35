"""forget_address: one person's mail, gone; everybody else's, as it was."""

import json

import pytest
from django.core.mail import EmailMessage, EmailMultiAlternatives
from django.core.management import CommandError, call_command
from django.utils import timezone

from django_dbqueue.mail import forget, windows
from django_dbqueue.mail.deliveries import Deliveries, Outcome, delivery
from django_dbqueue.mail.models import ArchivedEmail, Email, Mailer, Suppression
from django_dbqueue.mail.models.suppression import Reason
from django_dbqueue.mail.person import Person
from django_dbqueue.states import Status
from tests.conftest import fresh
from tests.helpers import overwrite, start, table

pytestmark = pytest.mark.usefixtures("db_rows")

ANNA = "anna@x.example"
SPELLINGS = [
    "anna@x.example",
    "ANNA@X.Example",
    "Anna <anna@x.example>",
    '"Doe, Anna" <anna@x.example>',
    "Doe, Anna <anna@x.example>",
    '"anna"@x.example',
    "=?utf-8?q?Ann=C3=A4?= <anna@x.example>",
    "Ännä <Anna@X.EXAMPLE>",
    "<anna@x.example>",
]
OTHERS = [
    "joanna@x.example",
    "anna@x.example.org",
    "anna@mail.x.example",
    "anna+shop@x.example",
    "anna.x@x.example",
    '"anna@x.example" <berta@x.example>',
]


@pytest.fixture
def run(capsys):
    """Call the command; what it printed, or the error's words."""

    def call(*args):
        call_command("forget_address", *args)
        return capsys.readouterr().out

    return call


def email(to, **fields):
    fields = {"subject": "Hi", "body": "Dear Anna", "from_email": "shop@x.example", **fields}
    return Email.from_message(EmailMessage(to=[to] if isinstance(to, str) else to, **fields))


def queued(to, status=Status.READY, **fields):
    columns, queue = fields.pop("columns", {}), fields.pop("queue", "default")
    made = email(to, **fields)
    made.queue = queue
    made.save()
    overwrite(made, status=status, **columns)
    if status in forget.HAVE_ENDED:
        overwrite(made, finished_at=timezone.now())
    return fresh(made)


def archived(to, **fields):
    made = queued(to, Status.DONE, **fields)
    row = ArchivedEmail.objects.create(
        **{f.attname: getattr(made, f.attname) for f in ArchivedEmail._meta.concrete_fields}
    )
    Email.objects.filter(pk=made.pk).delete()
    return row


def exists(row):
    return type(row)._base_manager.filter(pk=row.pk).exists()


def everything():
    """All that the tables of mail hold, as text."""
    return str(
        [list(m._base_manager.values()) for m in (Email, ArchivedEmail, Suppression, Mailer)]
    )


# --- who is meant -------------------------------------------------------------------------------


@pytest.mark.parametrize("spelled", SPELLINGS)
def test_every_spelling_of_the_address_is_the_person(run, spelled):
    rows = [queued(spelled), archived(spelled)]
    others = queued([spelled, "Berta <berta@x.example>"])
    run(ANNA)
    assert [exists(row) for row in rows] == [False, False]
    assert fresh(others).recipients == "Berta <berta@x.example>"


@pytest.mark.parametrize("spelled", SPELLINGS)
def test_the_address_may_be_given_in_any_spelling(spelled):
    if spelled != "Doe, Anna <anna@x.example>":
        assert Person(spelled).key == Person(ANNA).key


@pytest.mark.parametrize("other", OTHERS)
def test_nobody_else_is_meant(run, other):
    row, old = queued(other), archived(other)
    run(ANNA)
    assert fresh(row).recipients == row.recipients.replace(f'"{ANNA}"', '"erased"')
    assert exists(old)


@pytest.mark.parametrize("given", ["anna@bücher.example", "ANNA@xn--bcher-kva.example"])
@pytest.mark.parametrize("stored", ["Anna@BÜCHER.example", "anna@xn--bcher-kva.example"])
def test_a_domain_may_be_in_unicode_or_in_punycode(run, given, stored):
    Suppression.objects.suppress(stored, Reason.BOUNCE)
    row = queued(["berta@x.example", f"Anna <{stored}>"])
    run(given)
    assert fresh(row).to_message().to == ["berta@x.example"]
    assert not Suppression.objects.exists()


@pytest.mark.parametrize("address", ["jörg@x.example", "用户@x.example", '"a b"@x.example'])
def test_an_address_with_few_plain_letters_is_found(run, address):
    row = queued(address)
    run(address)
    assert not exists(row)


@pytest.mark.parametrize("nonsense", ["", "anna", "@x.example", "anna@", "Anna <>"])
def test_what_is_no_address_is_refused(run, nonsense):
    row = queued("anna@x.example")
    with pytest.raises(CommandError, match="no address"):
        run(nonsense)
    assert exists(row)


# --- what becomes of their mail -----------------------------------------------------------------


@pytest.mark.parametrize("status", [Status.READY, Status.DELAYED, Status.DONE, Status.BURIED])
def test_mail_to_the_person_alone_is_deleted_in_every_state_and_not_archived(run, status):
    row = queued(ANNA, status)
    twice = queued([ANNA, "Anna <anna@X.example>"], status)
    out = run(ANNA)
    assert "email: 2 deleted" in out
    assert not exists(row)
    assert not exists(twice)
    assert not ArchivedEmail.objects.exists()


def test_unsent_mail_still_goes_to_the_others_and_speaks_of_the_person_in_no_address(run):
    message = EmailMultiAlternatives(
        "News", "Hello all", "shop@x.example", [f"Anna <{ANNA}>", "Berta <berta@x.example>"]
    )
    message.cc, message.bcc = ["carl@x.example", ANNA], [ANNA, "dora@x.example"]
    message.reply_to = [f"{ANNA}, shop@x.example"]
    message.extra_headers = {
        "To": f"All of you <list@x.example>, Anna <{ANNA}>",
        "Disposition-Notification-To": ANNA,
        "X-Customer": f"no 7, {ANNA}",
        "Sender": "shop@x.example",
        "X-Empty": "",
    }
    message.merge_data = {ANNA: {"name": "Anna"}, "berta@x.example": {"name": "Berta"}}
    message.attach_alternative("<p>Hello all", "text/html")
    message.attach("terms.txt", "terms", "text/plain")
    row = Email.from_message(message)
    row.save()
    other = Email.from_message(message).to_message()
    run(ANNA)
    row = fresh(row)
    assert row.recipients == "Berta <berta@x.example>, carl@x.example, dora@x.example"
    after = row.to_message()
    assert (after.to, after.cc, after.bcc) == (
        ["Berta <berta@x.example>"],
        ["carl@x.example"],
        ["dora@x.example"],
    )
    assert after.reply_to == ["shop@x.example"]
    assert after.extra_headers == {
        "To": "All of you <list@x.example>",
        "X-Customer": "no 7, erased",
        "Sender": "shop@x.example",
        "X-Empty": "",
        "Message-ID": row.message_id,
    }
    assert after.merge_data == {"berta@x.example": {"name": "Berta"}}
    for same in ("subject", "body", "from_email", "attachments", "alternatives"):
        assert getattr(after, same) == getattr(other, same)
    assert ANNA not in everything()


def cancelled(*to):
    row = queued(list(to))
    Email.objects.filter(pk=row.pk).cancel()
    return ArchivedEmail.objects.get(pk=row.pk)


@pytest.mark.parametrize(
    "make", [lambda *to: queued(to, Status.BURIED), lambda *to: archived(to), cancelled]
)
def test_mail_to_others_too_that_has_ended_loses_its_message(run, make):
    row = fresh(make(ANNA, "berta@x.example"))
    out = run(ANNA)
    assert "0 deleted, 1 changed, 1 erased, 0 left" in out
    row = fresh(row)
    assert (row.message, row.subject, row.is_erased) == ("", "", True)
    assert row.recipients == "berta@x.example"


def test_outcomes_and_the_texts_of_errors_lose_the_address(run):
    said = f"SMTPRecipientsRefused: {ANNA}: 550 no such user <ANNA@X.example>"
    outcomes = Deliveries({})
    outcomes.note(["Anna@x.example"], delivery(Outcome.REFUSED, 550, "no such user"))
    outcomes.note(["berta@x.example"], delivery(Outcome.DEFERRED, 451, f"behind {ANNA}"))
    columns = {
        "deliveries": outcomes.stored(),
        "errors": [{"exception": "X", "message": said, "traceback": f"..{said}.."}],
    }
    rows = [
        queued([ANNA, "berta@x.example"], status, columns=columns)
        for status in (Status.READY, Status.DELAYED, Status.BURIED)
    ]
    run(ANNA)
    for row in map(fresh, rows):
        assert list(row.deliveries) == ["berta@x.example"]
        assert row.deliveries["berta@x.example"]["text"] == "behind erased"
        assert row.errors[0]["message"] == (
            "SMTPRecipientsRefused: erased: 550 no such user <erased>"
        )
    assert ANNA not in everything().lower()


def test_the_life_of_the_job_is_left_as_it_was(run):
    rows = [queued([ANNA, "b@x.example"], status) for status in (0, 2, 3, 4)]
    names = {field.attname for field in Email._meta.concrete_fields}
    names -= {"recipients", "message", "subject", "is_erased", "deliveries", "errors"}
    run(ANNA)
    for row in rows:
        assert [getattr(fresh(row), name) for name in names] == [getattr(row, n) for n in names]


def test_mail_that_answers_go_to_the_person_is_theirs_too(run):
    row = queued("shop@x.example", Status.DONE, reply_to=[f"Anna <{ANNA}>"])
    run(ANNA)
    assert fresh(row).is_erased
    assert exists(row)


def test_mail_from_the_person_is_the_senders_and_stays(run):
    row = queued("berta@x.example", from_email=f"Anna <{ANNA}>", headers={"Sender": ANNA})
    run(ANNA)
    assert fresh(row).message == row.message


def test_a_message_that_was_erased_before_still_loses_the_name(run):
    row = queued(['"Doe, Anna" <anna@x.example>', "b@x.example"], Status.DONE)
    overwrite(row, message="", is_erased=True)
    run(ANNA)
    assert fresh(row).recipients == "b@x.example"


def test_suppression_ends_unless_it_is_to_be_kept(run):
    for address in ("Anna@x.example", "berta@x.example"):
        Suppression.objects.suppress(address, Reason.COMPLAINT)
    run(ANNA, "--keep-suppression")
    assert Suppression.objects.count() == 2
    assert "suppressed address: 1 deleted" in run(ANNA)
    assert [row.address for row in Suppression.objects.all()] == ["berta@x.example"]


def test_why_a_mailer_rests_may_name_the_person(run):
    Mailer.objects.pause("smtp", 60, f"421 too many to {ANNA}")
    assert "mailer: 0 deleted, 1 changed" in run(ANNA)
    assert Mailer.objects.get().pause_reason == "421 too many to erased"


# --- what cannot be done now --------------------------------------------------------------------


def test_claimed_mail_is_left_and_said_and_the_next_run_takes_it(run, capsys):
    queued(ANNA)
    queued([ANNA, "berta@x.example"])
    claimed = Email.objects.claim(limit=2)
    with pytest.raises(CommandError, match=r"2 left as they are.*Run it again") as caught:
        run(ANNA)
    assert caught.value.returncode == 1
    assert "email: 0 deleted, 0 changed, 0 erased, 2 left" in capsys.readouterr().out
    assert all(job.message == fresh(job).message for job in claimed)
    for job in claimed:
        job.complete()
    assert "email: 1 deleted, 1 changed, 1 erased, 0 left" in run(ANNA)


def test_mail_that_a_worker_claims_meanwhile_is_left(run, monkeypatch):
    row = queued(ANNA)
    delete = forget.hand.delete

    def claim_first(*args):
        start(Email.objects.claim).result()
        return delete(*args)

    monkeypatch.setattr(forget.hand, "delete", claim_first)
    with pytest.raises(CommandError, match="1 left"):
        run(ANNA)
    assert fresh(row).status == Status.CLAIMED


def test_what_a_worker_notes_meanwhile_is_not_overwritten(run, monkeypatch):
    """A worker waits while a row is looked at, or comes before; it never writes in between."""
    row = queued([ANNA, "berta@x.example"])
    overwrite(row, deliveries={ANNA: {"outcome": "deferred"}})
    changes, workers = forget.changes, []

    def work():
        [job] = Email.objects.claim()
        job.deliveries = {"berta@x.example": {"outcome": "delivered"}}
        job.release()

    def claim_meanwhile(*args):
        workers.append(start(work))
        workers[-1].join(0.5)
        return changes(*args)

    monkeypatch.setattr(forget, "changes", claim_meanwhile)
    try:
        run(ANNA)
    except CommandError:
        pass
    for worker in workers:
        try:
            worker.result()
        except ValueError:  # the row was locked: it claimed nothing, and comes again
            work()
    assert fresh(row).deliveries == {"berta@x.example": {"outcome": "delivered"}}


def test_unsent_mail_that_this_release_cannot_read_is_left_and_ended_mail_erased(run):
    text = json.dumps({"version": 1, "to": [ANNA]})
    unsent, ended = queued([ANNA, "b@x.example"]), queued([ANNA, "b@x.example"], Status.DONE)
    for row in (unsent, ended):
        overwrite(row, message=text)
    with pytest.raises(CommandError, match="1 left"):
        run(ANNA)
    assert fresh(unsent).message == text
    assert fresh(ended).is_erased


def test_a_dry_run_counts_and_changes_nothing(run, capsys):
    queued(ANNA)
    queued([ANNA, "berta@x.example"])
    archived(ANNA)
    archived([ANNA, "berta@x.example"])
    for to in (ANNA, [ANNA, "berta@x.example"]):
        queued(to, queue="claimed")
    Email.objects.claim(limit=2, queue="claimed")
    Suppression.objects.suppress(ANNA, Reason.BOUNCE)
    Mailer.objects.pause("smtp", 60, ANNA)
    before = everything()
    outs = []
    for options in (["--dry-run"], []):
        assert everything() == before
        with pytest.raises(CommandError, match="2 left"):
            run(ANNA, *options)
        outs.append(capsys.readouterr().out)
    assert outs[0].splitlines()[1:] == outs[1].splitlines()
    assert "\nemail: 1 deleted, 1 changed, 0 erased, 2 left" in outs[0]
    assert "archived email: 1 deleted, 1 changed, 1 erased, 0 left" in outs[0]


def test_a_whole_table_is_gone_through_some_keys_at_a_time(run, monkeypatch):
    monkeypatch.setattr(windows, "SIZE", 7)
    monkeypatch.setattr(forget, "CHUNK", 2)
    people = [ANNA if n % 3 else "berta@x.example" for n in range(30)]
    Email.objects.bulk_create([email(one) for one in people])
    assert "email: 20 deleted" in run(ANNA)
    assert Email.objects.count() == 10


def test_a_job_that_somebody_holds_cannot_be_amended_or_deleted():
    queued(ANNA)
    [job] = Email.objects.claim()
    seen = [(job.pk, Status.CLAIMED, job.claim_owner)]
    hand, emails = forget.hand, table(Email)
    assert hand.delete(emails, seen).skipped == 1
    assert hand.amend(emails, seen, {"subject": "x"}).skipped == 1
    assert hand.amend(emails, [(job.pk, Status.READY, None)], {"subject": "x"}).skipped == 1
    with pytest.raises(ValueError, match="status"):
        hand.amend(emails, seen, {"status": 2})
    assert fresh(job).subject == "Hi"
