"""What a mail server says, in every way it may say it: the outcome in the row, what people got."""

import pytest

from django_dbqueue.mail.models import Email, Mailer, Suppression
from django_dbqueue.mail.models.suppression import Reason
from django_dbqueue.states import Status
from tests.kit.jobs import fresh
from tests.kit.mail import outcomes, queued, retried, run_mail, sent, setting

pytestmark = pytest.mark.usefixtures("db_rows", "impatient")


def test_everybody_has_it_and_what_the_server_called_it_is_kept(server):
    email = sent("anna", "berta")
    assert (email.status, email.mail_state) == (Status.DONE, "sent")
    assert outcomes(email) == {"anna": ("delivered", 250), "berta": ("delivered", 250)}
    assert email.deliveries["anna@x.example"]["text"] == "2.0.0 taken as 1"


def test_of_six_recipients_one_is_refused_and_five_have_it_once(server):
    names = ["anna", "berta", "carla", "refuse", "dora", "emma"]
    email = sent(*names)
    assert (email.status, email.mail_state) == (Status.BURIED, "partly sent")
    assert outcomes(email) == dict.fromkeys(names, ("delivered", 250)) | {
        "refuse": ("refused", 550)
    }
    assert email.last_error == "refuse@x.example: 550 5.1.1 no such user"
    assert [server.got(name) for name in names] == [1, 1, 1, 0, 1, 1]
    # The envelope is shorter, the headers are not.
    assert "refuse@x.example" in server.received[0].message["To"]


def test_only_who_was_deferred_is_asked_again(server):
    email = sent("anna", "defer", "refuse", "toomany")
    assert (email.status, email.mail_state[:11]) == (Status.DELAYED, "partly sent")
    assert outcomes(email)["defer"] == ("deferred", 450)
    assert outcomes(email)["toomany"] == ("deferred", 552)
    email = retried(email)
    assert email.attempts == 2
    assert email.status == Status.DELAYED
    assert server.got("anna") == 1
    assert len(server.received) == 1


def test_who_was_refused_is_asked_again_when_a_person_wants_it(server):
    email = sent("anna", "refuse")
    server.to_recipients.clear()
    Email.objects.filter(pk=email.pk).kick()
    run_mail()
    assert fresh(email).mail_state == "sent"
    assert (server.got("anna"), server.got("refuse")) == (1, 1)


@pytest.mark.parametrize("name", ["refuse", "big", "spam"])
def test_what_is_refused_for_good_fails_at_once(server, name):
    email = sent(name)
    assert (email.status, email.mail_state, email.attempts) == (Status.BURIED, "failed", 1)
    code = {"refuse": 550, "big": 552, "spam": 554}[name]
    assert outcomes(email) == {name: ("refused", code)}
    assert str(code) in email.last_error
    assert server.received == []


@pytest.mark.parametrize(("name", "code"), [("defer", 450), ("late", 451), ("toomany", 552)])
def test_what_is_deferred_is_sent_later_with_the_same_message_id(server, name, code):
    email = sent(name)
    assert email.mail_state.startswith("retry at 2")
    assert outcomes(email) == {name: ("deferred", code)}
    server.to_recipients.clear()
    server.to_messages.clear()
    email = retried(email)
    assert email.mail_state == "sent"
    assert server.received[0].message["Message-ID"] == email.message_id


@pytest.mark.parametrize(
    ("name", "said"), [("defer", "450 4.2.1 mailbox busy"), ("refuse", "550 5.1.1 no such user")]
)
def test_what_was_said_to_the_only_recipient_reads_as_it_was_said(server, name, said):
    assert sent(name).last_error == f"{name}@x.example: {said}"


@pytest.mark.parametrize(("name", "code"), [("busy", 421), ("throttle", 454)])
def test_a_server_that_wants_to_be_left_alone_is_paused(server, name, code):
    first = sent(name)
    assert outcomes(first) == {name: ("deferred", code)}
    assert first.status == Status.DELAYED
    mailer = Mailer.objects.named(first.using)
    assert 290 < mailer.rest <= 300
    assert str(code) in mailer.pause_reason
    seen = server.connections
    other = sent("anna")
    assert (other.status, other.attempts) == (Status.DELAYED, 0)
    assert server.connections == seen
    Mailer.objects.resume(first.using)
    Email.objects.filter(pk=other.pk).kick()
    run_mail()
    assert fresh(other).mail_state == "sent"


@pytest.mark.parametrize(("size", "outcome"), [(10, "in doubt"), (9_000_000, "deferred")])
def test_a_connection_that_is_reset_in_the_message_is_retried(server, size, outcome):
    # A short one is wholly on its way by then, and the server may have taken it.
    email = sent("reset", body="x" * 79 + "\n" + "y" * size)
    assert outcomes(email) == {"reset": (outcome, None)}
    assert email.status == Status.DELAYED
    assert server.unanswered == server.received == []


def test_no_answer_to_the_whole_message_is_in_doubt_and_retried(server):
    email = sent("stall", "anna")
    assert outcomes(email) == {"stall": ("in doubt", None), "anna": ("in doubt", None)}
    assert (email.status, email.attempts) == (Status.DELAYED, 1)
    assert len(server.unanswered) == 1


def test_what_is_in_doubt_waits_for_a_person_where_the_project_wants_that(server, settings):
    setting(settings, MAIL_IN_DOUBT="hold")
    email = sent("stall")
    assert (email.status, email.mail_state) == (Status.BURIED, "in doubt")
    assert "timed out" in email.last_error
    assert sent("late").status == Status.DELAYED  # of that there is no doubt


def test_what_a_dead_worker_may_have_sent_waits_for_a_person_as_well(server, settings):
    setting(settings, MAIL_IN_DOUBT="hold")
    email = queued("anna")
    [job] = Email.objects.claim()
    job.crashes = 1
    with pytest.raises(Exception, match="may have sent it"):
        job.run()
    assert server.received == []
    assert fresh(email).deliveries == {}


def test_a_recipient_who_is_named_twice_gets_it_once(server):
    email = queued("anna", "anna", cc=["Anna <anna@X.example>"])
    run_mail()
    assert fresh(email).mail_state == "sent"
    assert server.received[0].recipients == ["anna@x.example"]


def test_after_a_partial_refusal_the_connection_is_used_on(server):
    sent("anna", "refuse")
    sent("berta")
    assert (server.connections, len(server.received)) == (1, 2)


# --- who gets no mail ---------------------------------------------------------------------------


def test_suppressed_addresses_get_nothing_and_the_others_do(server):
    Suppression.objects.suppress("Anna@X.example", Reason.BOUNCE)
    email = sent("anna", "berta")
    assert (email.status, email.mail_state) == (Status.DONE, "partly sent")
    assert outcomes(email) == {"anna": ("suppressed", None), "berta": ("delivered", 250)}
    assert email.deliveries["anna@x.example"]["text"] == "hard bounce"
    assert (server.got("anna"), server.got("berta")) == (0, 1)


def test_mail_to_suppressed_addresses_alone_has_failed(server):
    Suppression.objects.suppress("anna@x.example", Reason.COMPLAINT)
    email = sent("anna")
    assert email.status == Status.BURIED
    assert email.last_error == "anna@x.example: complaint"
    assert server.connections == 0
    Suppression.objects.all().delete()
    Email.objects.filter(pk=email.pk).kick()
    run_mail()
    assert fresh(email).mail_state == "sent"


def test_only_allowed_domains_get_mail(server, settings):
    setting(settings, MAIL_ALLOWED_DOMAINS=["Example.com", "y.example"])
    email = queued("anna", cc=["b@example.com", "c@sub.y.example", "d@notexample.com"])
    run_mail()
    email = fresh(email)
    assert email.mail_state == "partly sent"
    assert server.received[0].recipients == ["b@example.com", "c@sub.y.example"]
    assert email.deliveries["anna@x.example"]["outcome"] == "not allowed"


def test_an_override_gets_all_mail_and_sees_whose_it_was(server, settings):
    setting(settings, MAIL_OVERRIDE_RECIPIENTS=("dev@y.example",))
    email = queued("anna", cc=["b@example.com"], bcc=["secret@x.example"])
    run_mail()
    email = fresh(email)
    assert (email.status, email.mail_state) == (Status.DONE, "redirected")
    assert set(outcomes(email).values()) == {("redirected", 250)}
    [received] = server.received
    assert received.recipients == ["dev@y.example"]
    assert (received.message["To"], received.message["Cc"]) == ("dev@y.example", None)
    assert "secret@x.example" in received.message["X-Original-To"]


def test_an_override_that_is_refused_tells_so(server, settings):
    setting(settings, MAIL_OVERRIDE_RECIPIENTS=("refuse@y.example",))
    email = sent("anna")
    assert outcomes(email) == {"anna": ("refused", 550)}
    assert email.status == Status.BURIED


# --- who judges ---------------------------------------------------------------------------------


def patient(error):
    """A classifier for which nothing is final."""
    return "retry"


def confused(error):
    return "perhaps"


def broken(error):
    raise KeyError(error)


def test_a_project_judges_errors_by_itself(server, settings):
    setting(settings, MAIL_CLASSIFIER=f"{__name__}.patient")
    email = sent("anna", "refuse")
    assert outcomes(email)["refuse"] == ("deferred", 550)
    assert email.status == Status.DELAYED


@pytest.mark.parametrize("name", ["confused", "broken", "missing"])
def test_a_classifier_that_makes_no_sense_costs_no_mail(server, settings, caplog, name):
    setting(settings, MAIL_CLASSIFIER=f"{__name__}.{name}")
    email = sent("anna", "refuse")
    assert email.status == Status.DELAYED
    assert outcomes(email)["anna"] == ("delivered", 250)
    assert "must return one of" in caplog.text
    retried(email)
    assert server.got("anna") == 1
