"""A mailer of the project's makes other recipients of a message's own, as they do in staging."""

import copy
from collections.abc import Callable
from email.utils import parseaddr
from typing import Any, ClassVar

import pytest
from django.core.mail.backends import locmem, smtp

from django_dbqueue.mail.models import Suppression
from tests.kit.mail import address, deliver_to, outcomes, retried, sent, setting

pytestmark = pytest.mark.usefixtures("db_rows")

DELIVERED, DEFERRED = ("delivered", 250), ("deferred", 450)


def redirect(message: Any) -> None:
    message.to, message.cc, message.bcc = [address("dev")], [], []


def add_copy(message: Any) -> None:
    message.bcc = [*message.bcc, address("archive")]


def leave_out(message: Any) -> None:
    message.to = [one for one in message.to if not one.startswith("real")]


def spell_anew(message: Any) -> None:
    message.to = [parseaddr(one)[1].lower() for one in message.to]


class Changing:
    change: ClassVar[Callable[[Any], None]]
    of_its_own: ClassVar[Callable[[Any], Any]]

    def send_messages(self, messages: Any) -> Any:
        messages = [Changing.of_its_own(message) for message in messages]
        for message in messages:
            Changing.change(message)
        return super().send_messages(messages)


class Smtp(Changing, smtp.EmailBackend):
    pass


class Memory(Changing, locmem.EmailBackend):
    pass


def itself(message: Any) -> Any:
    return message


@pytest.fixture(params=[itself, copy.copy, copy.deepcopy])
def mailer(request, server, settings, monkeypatch):
    """Use it, changing messages so; the server that it delivers to."""
    monkeypatch.setattr(Changing, "of_its_own", request.param, raising=False)

    def use(change):
        monkeypatch.setattr(Changing, "change", change, raising=False)
        deliver_to(settings, server.port, f"{__name__}.Smtp", MAIL_RETRY_FIRST=0.01)
        return server

    return use


def test_who_is_redirected_to_alone_gets_it(mailer):
    server = mailer(redirect)
    assert outcomes(sent("anna", "bert")) == dict.fromkeys(["anna", "bert"], DELIVERED)
    assert [one.recipients for one in server.received] == [[address("dev")]]


def test_so_it_is_where_the_server_has_hung_up_in_between(mailer):
    server = mailer(redirect)
    sent("anna")
    server.hang_up()
    sent("bert")
    assert [one.recipients for one in server.received] == [[address("dev")]] * 2


def test_an_added_copy_goes_out_and_who_has_the_message_does_not_get_it_again(mailer):
    server = mailer(add_copy)
    email = sent("anna", "defer")
    assert outcomes(email) == {"anna": DELIVERED, "defer": DEFERRED}
    Suppression.objects.create(address=address("suppressed"))
    server.to_recipients.clear()
    assert outcomes(retried(email))["defer"] == DELIVERED
    sent("suppressed", "carl")
    got = [[one.partition("@")[0] for one in it.recipients] for it in server.received]
    assert got == [["anna", "archive"], ["defer", "archive"], ["carl", "archive"]]


def test_what_a_server_says_counts_for_whom_it_was_said_of(mailer):
    mailer(leave_out)
    assert outcomes(sent("real", "defer", "anna")) == {
        "real": DELIVERED,
        "defer": DEFERRED,
        "anna": DELIVERED,
    }


def test_a_mailer_without_an_envelope_is_heeded_too(mailer, settings, mailoutbox):
    mailer(redirect)
    deliver_to(settings, 0, f"{__name__}.Memory")
    sent("anna")
    assert [one.recipients() for one in mailoutbox] == [[address("dev")]]


def test_it_goes_on_from_those_of_the_override(mailer, settings):
    server = mailer(add_copy)
    setting(settings, MAIL_OVERRIDE_RECIPIENTS=[address("qa")])
    assert outcomes(sent("anna")) == {"anna": ("redirected", 250)}
    assert [one.recipients for one in server.received] == [[address("qa"), address("archive")]]


def test_a_mailer_may_spell_addresses_as_it_likes(mailer):
    server = mailer(spell_anew)
    Suppression.objects.create(address=address("gone"))
    names = ["Anna", "Gone", "Defer", "Refuse"]
    email = sent(*[f"{name} <{address(name)}>" for name in names])
    refused = ("refused", 550)
    expected = {"Anna": DELIVERED, "Gone": ("suppressed", None), "Refuse": refused}
    assert outcomes(email) == {**expected, "Defer": DEFERRED}
    server.to_recipients.clear()
    assert outcomes(retried(email)) == {**expected, "Defer": DELIVERED}
    assert [one.recipients for one in server.received] == [[address("anna")], [address("defer")]]


def test_of_two_who_differ_in_capitals_alone_each_is_heeded(mailer):
    server = mailer(add_copy)
    server.to_recipients["anna"] = "450 busy"
    email = sent("Anna", "anna")
    assert outcomes(email) == {"Anna": DELIVERED, "anna": DEFERRED}
    server.to_recipients.clear()
    assert outcomes(retried(email)) == {"Anna": DELIVERED, "anna": DELIVERED}
    got = [[one.partition("@")[0] for one in it.recipients] for it in server.received]
    assert got == [["Anna", "archive"], ["anna", "archive"]]
