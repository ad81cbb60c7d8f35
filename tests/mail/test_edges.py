"""Where mail meets the edges: of databases, of calendars, of alphabets, of other people's hands."""

from io import StringIO

import pytest
from django.core.mail import EmailMessage
from django.core.management import call_command

from django_dbqueue.mail.backends import EmailBackend
from django_dbqueue.mail.models import ArchivedEmail, Email, Suppression
from django_dbqueue.mail.models.suppression import Reason
from django_dbqueue.states import Status
from tests.kit.jobs import claim_one, fresh, start
from tests.kit.mail import (
    USING,
    letter,
    outcomes,
    queued,
    run_claimed,
    run_mail,
    sent,
)
from tests.mail.test_odd_addresses import SPELLINGS

pytestmark = pytest.mark.usefixtures("db_rows")


def saved(*to, **fields):
    message = EmailMessage(**{"subject": "Hi", "body": "x", "from_email": "s@x.example"} | fields)
    message.to = list(to) or ["anna@x.example"]
    email = Email.from_message(message, **USING)
    email.save()
    return email


@pytest.mark.parametrize(
    "fields",
    [
        {"body": "a\0b"},
        {"body": "half \ud800"},
        {"subject": "half \ud800"},
        {"subject": "\U0001f600" * 300},
        {"from_email": "Änne <änne@bücher.example>"},
        {"from_email": "A" * 900 + " <s@x.example>"},
        {"headers": {"X-A": "\U0001f600\ud800"}},
        {"attachments": [("a\0b.txt", "x\0y", "text/plain")]},
    ],
)
def test_what_is_queued_is_stored_and_gets_an_outcome_or_is_refused_by_a_value_error(
    server, fields
):
    try:
        email = saved(**fields)
    except ValueError:
        assert not Email.objects.exists()
        return
    run_mail()
    assert fresh(email).status in {Status.DONE, Status.BURIED}


@pytest.mark.parametrize("header", ["Scheduled-Time", "Expires-At"])
@pytest.mark.parametrize("time", ["9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+12:00"])
def test_a_time_beyond_the_calendar_is_refused_by_the_name_of_the_wish(header, time):
    with pytest.raises(ValueError, match=header.lower().replace("-", "_")):
        saved(headers={f"X-DBQueue-{header}": time})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Queue", "q" * 201),
        ("Queue", "a\tb"),
        ("Priority", "soon"),
        ("Expires-At", "9999-12-31T23:59:59-12:00"),
    ],
)
def test_a_wish_that_cannot_be_granted_costs_no_other_mail_of_the_batch(name, value):
    letters = [letter("anna"), letter("berta", headers={f"X-DBQueue-{name}": value})]
    options = {"using": "smtp", "alias": "default"} if USING else {}
    assert EmailBackend(fail_silently=True, **options).send_messages([*letters, letters[0]]) == 2
    assert Email.objects.count() == 2


@pytest.mark.parametrize("to", ["jörg@x.example", "用户@例子.广告", '"jö rg"@x.example'])
def test_a_local_part_in_another_alphabet_has_an_outcome(server, to):
    email = saved(to)
    run_mail()
    email = fresh(email)
    assert email.status in {Status.DONE, Status.BURIED, Status.DELAYED}
    [one] = email.deliveries.values()
    assert (one["outcome"] == "delivered") == (len(server.received) == 1)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_to_be_forgotten_one_is_no_longer_suppressed_in_any_spelling(spelling):
    suppressed, written = SPELLINGS[spelling]
    Suppression.objects.suppress(suppressed, Reason.BY_HAND)
    call_command("forget_address", written, stdout=StringIO())
    assert not Suppression.objects.exists()


def test_forgetting_while_it_is_sent_leaves_the_outcome_and_says_to_run_it_again(server, capsys):
    """The worker has the message in hand: what it writes afterwards must not bring them back."""
    queued("anna", "berta")
    job = claim_one(Email)
    with pytest.raises(Exception, match="Run it again"):
        call_command("forget_address", "anna@x.example")
    run_claimed(job)
    assert set(outcomes(fresh(job))) == {"anna", "berta"}
    call_command("forget_address", "anna@x.example")
    row = fresh(job)
    assert "anna" not in f"{row.recipients}{row.message}{row.deliveries}{row.errors}"


def test_forgetting_comes_between_two_attempts_and_nothing_comes_back(server):
    email = sent("anna", "defer")
    call_command("forget_address", "anna@x.example")
    call_command("forget_address", "defer@x.example")
    assert not Email.objects.filter(pk=email.pk, recipients__contains="@").exists()
    Email.objects.all().kick()
    run_mail()
    assert server.got("anna") == 1
    for row in Email.objects.all():
        assert "defer" not in f"{row.recipients}{row.message}{row.deliveries}{row.errors}"


def test_of_two_who_resend_a_mail_at_once_one_is_told_that_the_other_does(server):
    email = sent("refuse")

    def work():
        try:
            return fresh(email).resend().pk
        except ValueError as error:
            return str(error)

    answers = [thread.result() for thread in [start(work) for _ in range(4)]]
    assert sum(isinstance(one, int) for one in answers) == 1
    assert Email.objects.filter(resend_of=email.pk).count() == 1


def test_a_cancelled_mail_is_resent_to_those_who_have_not_got_it(server):
    email = sent("anna", "defer")
    Email.objects.filter(pk=email.pk).cancel()
    server.to_recipients.clear()
    new = ArchivedEmail.objects.get(pk=email.pk).resend()
    run_mail()
    assert fresh(new).mail_state == "sent"
    assert (server.got("anna"), server.got("defer")) == (1, 1)
