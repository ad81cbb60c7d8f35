"""forget_address: one person's mail, gone; everybody else's, as it was."""

import pytest
from django.core.mail import EmailMultiAlternatives
from django.core.management import CommandError

from django_dbqueue.mail.deliveries import Deliveries, Outcome, delivery
from django_dbqueue.mail.models import ArchivedEmail, Email, Mailer, Suppression
from django_dbqueue.mail.models.suppression import Reason
from django_dbqueue.mail.privacy.person import Person
from django_dbqueue.states import Status
from tests.kit.jobs import fresh, overwrite
from tests.kit.mail import all_rows, email_of, enqueue, exists, in_archive, in_state, queued

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


@pytest.mark.parametrize("spelled", SPELLINGS)
def test_every_spelling_of_the_address_is_the_person(forget_address, spelled):
    rows = [queued(spelled), in_archive(spelled)]
    others = queued(spelled, "Berta <berta@x.example>")
    forget_address(ANNA)
    assert [exists(row) for row in rows] == [False, False]
    assert fresh(others).recipients == "Berta <berta@x.example>"


@pytest.mark.parametrize("spelled", SPELLINGS)
def test_the_address_may_be_given_in_any_spelling(spelled):
    if spelled != "Doe, Anna <anna@x.example>":
        assert Person(spelled).key == Person(ANNA).key


@pytest.mark.parametrize("other", OTHERS)
def test_nobody_else_is_meant(forget_address, other):
    row, old = queued(other), in_archive(other)
    forget_address(ANNA)
    assert fresh(row).recipients == row.recipients.replace(f'"{ANNA}"', '"erased"')
    assert exists(old)


@pytest.mark.parametrize("given", ["anna@bücher.example", "ANNA@xn--bcher-kva.example"])
@pytest.mark.parametrize("stored", ["Anna@BÜCHER.example", "anna@xn--bcher-kva.example"])
def test_a_domain_may_be_in_unicode_or_in_punycode(forget_address, given, stored):
    Suppression.objects.suppress(stored, Reason.BOUNCE)
    row = queued("berta@x.example", f"Anna <{stored}>")
    forget_address(given)
    assert fresh(row).to_message().to == ["berta@x.example"]
    assert not Suppression.objects.exists()


@pytest.mark.parametrize("address", ["jörg@x.example", "用户@x.example", '"a b"@x.example'])
def test_an_address_with_few_plain_letters_is_found(forget_address, address):
    row = queued(address)
    forget_address(address)
    assert not exists(row)


@pytest.mark.parametrize("nonsense", ["", "anna", "@x.example", "anna@", "Anna <>"])
def test_what_is_no_address_is_refused(forget_address, nonsense):
    row = queued("anna@x.example")
    with pytest.raises(CommandError, match="no address"):
        forget_address(nonsense)
    assert exists(row)


@pytest.mark.parametrize("status", [Status.READY, Status.DELAYED, Status.DONE, Status.BURIED])
def test_mail_to_the_person_alone_is_deleted_in_every_state_and_not_archived(
    forget_address, status
):
    row = in_state(status, ANNA)
    twice = in_state(status, ANNA, "Anna <anna@X.example>")
    out = forget_address(ANNA)
    assert "email: 2 deleted" in out
    assert not exists(row)
    assert not exists(twice)
    assert not ArchivedEmail.objects.exists()


def news():
    """A message that names the person wherever a message can."""
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
    names = {ANNA: {"name": "Anna"}, "berta@x.example": {"name": "Berta"}}
    message.merge_data = names  # type: ignore[attr-defined]
    message.attach_alternative("<p>Hello all", "text/html")
    message.attach("terms.txt", "terms", "text/plain")
    return message


def test_unsent_mail_still_goes_to_the_others_and_speaks_of_the_person_in_no_address(
    forget_address,
):
    row, other = enqueue(news()), email_of(news()).to_message()
    forget_address(ANNA)
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
    assert ANNA not in str(all_rows())


def test_unsent_mail_has_no_place_for_the_person_in_its_personalizations(forget_address):
    berta = {"email": "berta@x.example", "name": "Berta"}
    message = news()
    message.personalizations = [
        {"to": [{"email": "Anna@X.example"}], "substitutions": {"%name%": "Anna"}},
        {"to": [berta, {"email": ANNA}], "bcc": [{"email": ANNA}], "subject": f"not {ANNA}"},
    ]
    row = enqueue(message)
    forget_address(ANNA)
    found = fresh(row).to_message().personalizations
    assert found == [{"to": [berta], "bcc": [], "subject": "not erased"}]


def cancelled(*to):
    row = queued(*to)
    Email.objects.filter(pk=row.pk).cancel()
    return ArchivedEmail.objects.get(pk=row.pk)


@pytest.mark.parametrize("make", [lambda *to: in_state(Status.BURIED, *to), in_archive, cancelled])
def test_mail_to_others_too_that_has_ended_loses_its_message(forget_address, make):
    row = fresh(make(ANNA, "berta@x.example"))
    out = forget_address(ANNA)
    assert "0 deleted, 1 changed, 1 erased, 0 left" in out
    row = fresh(row)
    assert (row.message, row.subject, row.is_erased) == ("", "", True)
    assert row.recipients == "berta@x.example"


def test_outcomes_and_the_texts_of_errors_lose_the_address(forget_address):
    said = f"SMTPRecipientsRefused: {ANNA}: 550 no such user <ANNA@X.example>"
    outcomes = Deliveries({})
    outcomes.note(["Anna@x.example"], delivery(Outcome.REFUSED, 550, "no such user"))
    outcomes.note(["berta@x.example"], delivery(Outcome.DEFERRED, 451, f"behind {ANNA}"))
    columns = {
        "deliveries": outcomes.stored(),
        "errors": [{"exception": "X", "message": said, "traceback": f"..{said}.."}],
    }
    rows = [
        in_state(status, ANNA, "berta@x.example", columns=columns)
        for status in (Status.READY, Status.DELAYED, Status.BURIED)
    ]
    forget_address(ANNA)
    for row in map(fresh, rows):
        assert list(row.deliveries) == ["berta@x.example"]
        assert row.deliveries["berta@x.example"]["text"] == "behind erased"
        assert row.errors[0]["message"] == (
            "SMTPRecipientsRefused: erased: 550 no such user <erased>"
        )
    assert ANNA not in str(all_rows()).lower()


def test_the_life_of_the_job_is_left_as_it_was(forget_address):
    rows = [in_state(status, ANNA, "b@x.example") for status in (0, 2, 3, 4)]
    names = {field.attname for field in Email._meta.concrete_fields}
    names -= {"recipients", "message", "subject", "is_erased", "deliveries", "errors"}
    forget_address(ANNA)
    for row in rows:
        assert [getattr(fresh(row), name) for name in names] == [getattr(row, n) for n in names]


def test_mail_that_answers_go_to_the_person_is_theirs_too(forget_address):
    row = in_state(Status.DONE, "shop@x.example", reply_to=[f"Anna <{ANNA}>"])
    forget_address(ANNA)
    assert fresh(row).is_erased
    assert exists(row)


def test_mail_from_the_person_is_the_senders_and_stays(forget_address):
    row = queued("berta@x.example", from_email=f"Anna <{ANNA}>", headers={"Sender": ANNA})
    forget_address(ANNA)
    assert fresh(row).message == row.message


def test_a_message_that_was_erased_before_still_loses_the_name(forget_address):
    row = in_state(Status.DONE, '"Doe, Anna" <anna@x.example>', "b@x.example")
    overwrite(row, message="", is_erased=True)
    forget_address(ANNA)
    assert fresh(row).recipients == "b@x.example"


def test_suppression_ends_unless_it_is_to_be_kept(forget_address):
    for address in ("Anna@x.example", "berta@x.example"):
        Suppression.objects.suppress(address, Reason.COMPLAINT)
    forget_address(ANNA, "--keep-suppression")
    assert Suppression.objects.count() == 2
    assert "suppressed address: 1 deleted" in forget_address(ANNA)
    assert [row.address for row in Suppression.objects.all()] == ["berta@x.example"]


def test_why_a_mailer_rests_may_name_the_person(forget_address):
    Mailer.objects.pause("smtp", 60, f"421 too many to {ANNA}")
    assert "mailer: 0 deleted, 1 changed" in forget_address(ANNA)
    assert Mailer.objects.get().pause_reason == "421 too many to erased"
