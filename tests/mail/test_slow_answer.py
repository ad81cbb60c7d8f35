"""A server that takes its time with a whole message: waited for, and not asked without end."""

import smtplib
import time

import pytest

from django_dbqueue.mail.checks import check_settings
from django_dbqueue.mail.in_doubt import mark_as_sent
from django_dbqueue.mail.models import Email
from django_dbqueue.mail.sending import connections
from django_dbqueue.mail.sending.connections import Conversation, Listening
from django_dbqueue.states import Status
from tests.kit.jobs import fresh, overwrite
from tests.kit.mail import (
    MEMORY,
    deliver_to,
    email_of,
    letter,
    outcomes,
    retried,
    run_mail,
    sent,
    setting,
)
from tests.kit.mail_admin import page_of, text_of

pytestmark = [pytest.mark.usefixtures("db_rows", "impatient"), pytest.mark.any_database]

TIMEOUT = 1.0  # seconds
IN_DOUBT = {"stall": ("in doubt", None)}


@pytest.fixture
def slow(server, settings):
    """It needs longer for a message than it may for anything else."""
    setting(settings, MAIL_TIMEOUT=TIMEOUT, MAIL_FINAL_TIMEOUT=20)
    server.before_answer = lambda _: time.sleep(2 * TIMEOUT)
    return server


def test_the_answer_to_a_whole_message_is_waited_for_longer_than_others(slow):
    assert outcomes(sent("anna")) == {"anna": ("delivered", 250)}
    assert slow.got("anna") == 1


def timeouts_at(monkeypatch, name, kind=str):
    """What the socket's was afterwards, each time that the client did this with such a thing."""
    seen = []
    do = getattr(Listening, name)

    def watched(self, *args):
        result = do(self, *args)
        if isinstance(args[0], kind):
            seen.append(self.sock.gettimeout())
        return result

    monkeypatch.setattr(Listening, name, watched)
    return seen


def test_the_next_command_on_that_connection_is_not(slow, monkeypatch):
    seen = timeouts_at(monkeypatch, "rcpt")
    assert [sent("anna").mail_state, sent("anna").mail_state] == ["sent", "sent"]
    assert (seen, slow.connections) == ([TIMEOUT, TIMEOUT], 1)


@pytest.mark.parametrize(
    ("time_to_run", "least", "most"),
    [(None, 20, 20), (15, TIMEOUT, 5), (12, TIMEOUT, 2), (5, TIMEOUT, TIMEOUT)],
)
def test_the_time_that_a_mail_may_take_is_not_overrun(slow, monkeypatch, time_to_run, least, most):
    """Its child would be killed, with the mails of other threads."""
    slow.before_answer = lambda _: None
    seen = timeouts_at(monkeypatch, "send", bytes)
    email = email_of(letter())
    email.time_to_run = time_to_run
    email.save()
    run_mail()
    assert fresh(email).mail_state == "sent"
    assert least <= seen[0] <= most


def test_a_backend_that_waits_longer_by_itself_goes_on_doing_so(slow, settings, monkeypatch):
    setting(settings, MAIL_TIMEOUT=30, MAIL_FINAL_TIMEOUT=20)
    seen = timeouts_at(monkeypatch, "send", bytes)
    assert sent("anna").mail_state == "sent"
    assert seen == [30]


def test_who_there_is_no_time_for_gets_it_with_the_next_attempt(server, monkeypatch):
    """Else its child would be killed with each attempt, and nobody would get it."""
    ask, late = smtplib.SMTP.rcpt, [0.0]

    def ask_slowly(client, *args):
        late[0] = 60.0 * (len(client.listener.conversation.recipients) + 1)
        return ask(client, *args)

    monkeypatch.setattr(smtplib.SMTP, "rcpt", ask_slowly)
    monkeypatch.setattr(connections, "monotonic", lambda: time.monotonic() + late[0])
    email = sent("refuse", *[f"r{number}" for number in range(7)])
    assert (email.mail_state.partition(",")[0], email.attempts) == ("partly sent", 1)
    assert outcomes(email)["refuse"] == ("refused", 550)
    assert outcomes(email)["r6"] == ("deferred", 450)
    while email.status == Status.DELAYED:
        email = retried(email)
    assert sorted(outcomes(email).values()) == [("delivered", 250)] * 7 + [("refused", 550)]
    got = [who for one in server.received for who in one.recipients]
    assert sorted(got) == [f"r{number}@x.example" for number in range(7)]


def test_all_are_asked_for_where_a_mail_has_too_little_time_from_the_first(server):
    email = email_of(letter("anna", "bert", "carl"))
    email.time_to_run = 5
    email.save()
    run_mail()
    assert outcomes(fresh(email)) == dict.fromkeys(["anna", "bert", "carl"], ("delivered", 250))


def every_refusal_is_final(_):
    return "fail"


def test_who_was_not_asked_for_is_not_judged(server, settings, monkeypatch):
    setting(settings, MAIL_CLASSIFIER=f"{__name__}.every_refusal_is_final")
    monkeypatch.setattr(Conversation, "may_ask_another", lambda self: len(self.recipients) < 2)
    email = sent("anna", "defer", "bert")
    assert outcomes(email) == {
        "anna": ("delivered", 250),
        "defer": ("refused", 450),
        "bert": ("deferred", 450),
    }


@pytest.mark.parametrize(("seconds", "found"), [(0, 1), (240, 0), (299.5, 0), (300, 1)])
def test_a_check_keeps_it_below_the_time_to_run(settings, seconds, found):
    deliver_to(settings, 0, MEMORY)
    setting(settings, MAIL_FINAL_TIMEOUT=seconds)
    assert [one.id for one in check_settings()] == ["dbqueue_mail.E015"] * found


@pytest.mark.parametrize(("more", "times"), [({}, 3), ({"MAIL_IN_DOUBT_REPEATS": 0}, 1)])
def test_who_may_have_it_gets_no_fourth_one_without_a_word_of_somebody(
    server, settings, more, times
):
    setting(settings, **more)
    email = sent("stall")
    for _ in range(times - 1):
        assert (email.status, outcomes(email)) == (Status.DELAYED, IN_DOUBT)
        email = retried(email)
    assert (email.status, email.mail_state, email.attempts) == (Status.BURIED, "in doubt", times)
    assert len(server.unanswered) == times
    assert {one.message["Message-ID"] for one in server.unanswered} == {email.message_id}


def test_what_a_server_says_in_between_does_not_begin_the_count_anew(server):
    email = sent("stall")
    server.to_recipients["stall"] = "450 busy"
    email = retried(email)
    assert outcomes(email) == {"stall": ("deferred", 450)}
    del server.to_recipients["stall"]
    email = retried(retried(email))
    assert (email.mail_state, len(server.unanswered)) == ("in doubt", 3)


@pytest.mark.parametrize("answer", ["450 busy", "550 no such user"])
def test_who_may_have_it_is_left_to_a_person_whatever_the_last_attempt_came_to(
    server, browser, answer
):
    email = sent("stall", "anna")
    server.to_recipients["stall"] = answer
    overwrite(email, attempts=Email.policy().max_attempts - 1)
    email = retried(email)
    assert (email.status, email.mail_state, email.is_in_doubt) == (Status.BURIED, "in doubt", True)
    page = text_of(browser.get(page_of(email)))
    assert "<td>stall@x.example</td><td>in doubt</td>" in page
    assert "It is in doubt whether a recipient got it" in page
    assert mark_as_sent(email)
    run_mail()
    assert fresh(email).mail_state == "sent"


def held(server, settings):
    setting(settings, MAIL_IN_DOUBT_REPEATS=0)
    email = sent("stall")
    assert email.mail_state == "in doubt"
    setting(settings, MAIL_IN_DOUBT_REPEATS=1)
    return email


def test_a_person_begins_the_count_anew(server, settings):
    email = held(server, settings)
    Email.objects.filter(pk=email.pk).kick()
    run_mail()
    email = fresh(email)
    assert email.status == Status.DELAYED
    assert (retried(email).mail_state, len(server.unanswered)) == ("in doubt", 3)


def test_a_person_who_knows_better_ends_it(server, settings):
    email = held(server, settings)
    assert mark_as_sent(email)
    run_mail()
    assert (fresh(email).mail_state, len(server.unanswered)) == ("sent", 1)


def test_what_was_never_in_doubt_has_no_count(server):
    assert "doubts" not in sent("anna").deliveries["anna@x.example"]
    assert sent("stall").deliveries["stall@x.example"]["doubts"] == 1
    assert Conversation().until > 1e9
