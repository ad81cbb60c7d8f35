"""Addresses and servers' words as odd as they come: nothing is lost, nobody gets it who should not,
and who is one person is treated as one."""

from contextlib import suppress

import pytest
from django.core.mail import EmailMessage

from django_dbqueue.mail.deliveries import TEXT_MAX_CHARS
from django_dbqueue.mail.models import Email, Mailer, Suppression
from django_dbqueue.mail.models.suppression import Reason
from django_dbqueue.states import Status
from tests.kit.jobs import fresh
from tests.kit.mail import USING, outcomes, queued, run_mail, sent, setting

pytestmark = pytest.mark.usefixtures("db_rows")


def mail_to(*to, **fields):
    email = Email.from_message(
        EmailMessage("Hi", "x", "shop@x.example", list(to), **fields), **USING
    )
    email.save()
    run_mail()
    return fresh(email)


def got(server):
    return [one.recipients for one in server.received]


# --- who is suppressed --------------------------------------------------------------------------

SPELLINGS = {
    "capitals": ("anna@x.example", "ANNA@X.EXAMPLE"),
    "a name": ("anna@x.example", "Anna <anna@x.example>"),
    "punycode": ("anna@bücher.example", "anna@xn--bcher-kva.example"),
    "unicode": ("anna@xn--bcher-kva.example", "anna@Bücher.example"),
    "quotes": ("anna@x.example", '"anna"@x.example'),
    "a decomposed letter": ("anna@bücher.example", "anna@bu\u0308cher.example"),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_who_is_suppressed_is_so_in_every_spelling(server, spelling):
    suppressed, written = SPELLINGS[spelling]
    Suppression.objects.suppress(suppressed, Reason.COMPLAINT)
    email = mail_to(written, "berta@x.example")
    assert got(server) == [["berta@x.example"]]
    assert sorted(one["outcome"] for one in email.deliveries.values()) == [
        "delivered",
        "suppressed",
    ]


def test_two_spellings_of_one_who_is_suppressed_in_one_mail(server):
    Suppression.objects.suppress("anna@x.example", Reason.COMPLAINT)
    email = mail_to("Anna@x.example", cc=["anna@x.example"], bcc=["ANNA@x.example"])
    assert got(server) == []
    assert {one["outcome"] for one in email.deliveries.values()} == {"suppressed"}
    assert email.status == Status.BURIED


def test_a_bcc_is_suppressed_and_counted_as_anybody(server):
    Suppression.objects.suppress("secret@x.example", Reason.BY_HAND)
    mail_to("anna@x.example", bcc=["secret@x.example", "other@x.example"])
    assert got(server) == [["anna@x.example", "other@x.example"]]
    assert b"other@x.example" not in server.received[0].content


# --- who is allowed -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("domain", "written"),
    [
        ("bücher.example", "anna@xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "anna@bücher.example"),
        ("BÜCHER.example", "anna@Bücher.example"),
        ("x.example", "anna@X.Example."),
    ],
)
def test_an_allowed_domain_is_so_in_every_spelling(server, settings, domain, written):
    setting(settings, MAIL_ALLOWED_DOMAINS=[domain])
    email = mail_to(written)
    assert {one["outcome"] for one in email.deliveries.values()} <= {"delivered", "refused"}


@pytest.mark.parametrize(
    "written",
    [
        "anna@x.example@evil.example",
        '"anna@x.example"@evil.example',
        "anna@evil.example, b@x.example",
        "anna@xx.example",
        "@x.example",
        "x.example",
        "anna@evil.example (@x.example)",
        "<anna@evil.example>@x.example",
        '"<b@x.example>" <anna@evil.example>',
        "anna@evil.example <b@x.example>",
    ],
)
def test_no_spelling_gets_mail_out_of_the_allowed_domains(server, settings, written):
    setting(settings, MAIL_ALLOWED_DOMAINS=["x.example"])
    with suppress(ValueError):  # to Python some of them are several addresses
        mail_to(written, "berta@x.example")
    assert not [one for each in got(server) for one in each if not one.endswith("@x.example")]


# --- each with an outcome of their own ----------------------------------------------------------


@pytest.mark.parametrize(
    "written",
    [
        '"anna smith"@x.example',
        '"anna,smith"@x.example',
        '"an\\"na"@x.example',
        '"a@b"@x.example',
        "Smith, Anna <anna@x.example>",
        '"Smith, Anna" <anna@x.example>',
        "Änne <anna@x.example>",
        "anna+tag=1@x.example",
        "anna@[127.0.0.1]",
        "anna@bücher.example",
        "a" * 64 + "@" + "b" * 60 + ".example",
    ],
)
def test_an_odd_address_has_an_outcome_and_gets_it_at_most_once(server, written):
    email = mail_to(written)
    assert email.status in {Status.DONE, Status.BURIED}
    assert len(email.deliveries) == 1
    [outcome] = [one["outcome"] for one in email.deliveries.values()]
    assert (outcome == "delivered") == (email.status == Status.DONE) == (len(got(server)) == 1)
    run_mail()
    assert len(got(server)) <= 1


@pytest.mark.parametrize("written", ['"anna smith"@x.example', "anna@bücher.example"])
def test_what_has_the_server_taken_is_not_sent_again(server, written):
    server.to_recipients["grey"] = "450 later"
    email = mail_to(written, "grey@x.example")
    assert len(server.received) == 1
    Email.objects.filter(pk=email.pk).kick()
    run_mail()
    assert len(server.received) == 1


# --- what servers say ---------------------------------------------------------------------------

ODD_WORDS = {
    "long": "x" * 400,
    "many bytes": "ü" * 300,
    "NUL": "no\0body",
    "control characters": "a\x01\x1b[31m\x7f",
    "no utf-8": "kein Empf\udce4nger",
}


@pytest.mark.parametrize("words", ODD_WORDS)
@pytest.mark.parametrize("name", ["refuse", "defer", "busy", "full", "late"])
def test_whatever_a_server_says_the_outcome_is_recorded(server, name, words):
    script = server.to_messages if name in {"full", "late"} else server.to_recipients
    code = script[name][:3]
    script[name] = f"{code} {ODD_WORDS[words]}"
    email = sent(name)
    outcome = "refused" if code[0] == "5" else "deferred"
    assert outcomes(email) == {name: (outcome, int(code))}
    assert email.status == (Status.BURIED if code[0] == "5" else Status.DELAYED)
    text = email.deliveries[f"{name}@x.example"]["text"]
    assert text
    assert len(text) <= TEXT_MAX_CHARS
    assert "\0" not in text
    if name == "busy":
        assert Mailer.objects.named(email.using).rest > 0


@pytest.mark.parametrize("words", ODD_WORDS)
def test_a_refusal_over_many_lines_is_one_text(server, words):
    line = ODD_WORDS[words]
    server.to_recipients["refuse"] = "\r\n".join([*[f"550-{line}"] * 40, f"550 {line}"])
    email = sent("anna", "refuse")
    assert outcomes(email) == {"anna": ("delivered", 250), "refuse": ("refused", 550)}
    assert len(email.deliveries["refuse@x.example"]["text"]) <= TEXT_MAX_CHARS


def test_a_server_that_speaks_no_protocol_loses_no_mail(server):
    server.to_recipients["defer"] = "what?"
    email = sent("defer")
    assert email.status == Status.DELAYED


def test_a_great_many_recipients_are_all_recorded(server):
    names = [f"anna{n}" for n in range(300)]
    email = queued(*names, "refuse")
    run_mail()
    email = fresh(email)
    assert len(email.deliveries) == 301
    assert email.mail_state == "partly sent"
