"""What a mail server receives of a queued message is what Django would have sent it at once."""

import copy
import os
import re
from collections import Counter

import pytest
from aiosmtpd.controller import Controller
from django.core.mail import EmailMultiAlternatives
from django.core.mail.backends.smtp import EmailBackend as SMTPBackend
from hypothesis import HealthCheck, Phase, given, seed, settings

from django_dbqueue.mail.deliveries import address_of
from django_dbqueue.mail.models import Email
from django_dbqueue.mail.storing.codec import decode, encode
from tests.kit.mail import MAILER, deliver_to, free_port
from tests.kit.message_strategies import messages

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.proof]

SEED = int(os.environ.get("MAIL_SEED", "6"))
SHORT, LONG = 40, 5000
GENERATED = b"date", b"message-id"
PLAIN = "subject", "body", "from_email", "content_subtype", "to", "cc", "bcc", "reply_to"
FOR_PROVIDERS = (
    *("tags", "metadata", "template_id", "merge_data", "merge_global_data", "esp_extra"),
    *("track_opens", "send_at"),
)


class Recorder:
    """A mail server that keeps each envelope and what came in it, byte by byte."""

    port: int

    def __init__(self):
        self.received = []

    async def handle_DATA(self, server, session, envelope):
        taken = envelope.mail_from, envelope.rcpt_tos, envelope.original_content
        self.received.append(taken)
        return "250 taken"

    def take(self):
        """The only message since the last time, or nothing."""
        found, self.received = self.received, []
        assert len(found) <= 1
        return found[0] if found else None


@pytest.fixture
def wire(settings, own_connections):
    recorder = Recorder()
    controller = Controller(recorder, hostname="127.0.0.1", port=free_port())
    controller.start()
    deliver_to(settings, controller.port)
    recorder.port = controller.port
    yield recorder
    controller.stop()


def examples(full):
    return lambda test: settings(
        max_examples=LONG if full else SHORT,
        database=None,
        phases=(Phase.generate, Phase.shrink),  # explaining takes minutes
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )(seed(SEED)(given(messages())(test)))


def directly(message, wire):
    """Send it with Django alone; what arrived."""
    backend = SMTPBackend(host="127.0.0.1", port=wire.port, alias="direct")
    try:
        backend.send_messages([copy.deepcopy(message)])
    except Exception as error:
        return refused(error, wire)
    return normal(wire.take(), message)


def by_queue(message, wire):
    """Queue it, claim it, run it; what arrived."""
    try:
        Email.from_message(message, using=MAILER).save()
        [job] = Email.objects.claim(limit=1)
        job.run()
    except Exception as error:
        return refused(error, wire)
    return normal(wire.take(), message)


def refused(error, wire):
    assert wire.take() is None
    return error


def normal(taken, message):
    """The sender, each recipient once, and the bytes without what is new on every rendering."""
    sender, recipients, content = taken
    given_too = {name.lower().encode() for name in message.extra_headers}
    head, blank, body = content.partition(b"\r\n\r\n")
    for name in set(GENERATED) - given_too:
        head, count = re.subn(rb"(?mi)^%b:.*\r\n([ \t].*\r\n)*" % name, b"", head + b"\r\n")
        head = head.removesuffix(b"\r\n")
        assert count == 1, name
    data = re.sub(rb"={15}\d{19}==", b"BOUNDARY", head + blank + body)
    return sender, list({address_of(one): one for one in recipients}.values()), data


def assert_says_the_same(restored, message):
    """Also what SMTP does not carry."""
    assert isinstance(restored, EmailMultiAlternatives) == isinstance(
        message, EmailMultiAlternatives
    )
    for name in PLAIN:
        assert getattr(restored, name) == getattr(message, name), name
    for name in FOR_PROVIDERS:
        kept, told = getattr(restored, name, None), getattr(message, name, None)
        assert (kept, type(kept)) == (told, type(told)), name
    assert list(restored.extra_headers) == list(message.extra_headers)
    assert encode(restored) == encode(message)


def test_the_server_receives_the_bytes_and_the_envelope_that_django_would_have_sent(wire, full):
    counts = Counter()

    @examples(full)
    def check(message):
        expected, found = directly(message, wire), by_queue(message, wire)
        if isinstance(expected, Exception):
            counts["refused by Django"] += 1
            assert isinstance(found, Exception), (expected, found)
            return
        if isinstance(found, Exception):
            raise found
        counts["equal"] += 1
        assert found == expected
        assert_says_the_same(decode(encode(message)), message)

    print(f"MAIL_SEED={SEED}")
    check()
    print(dict(counts))
    assert counts["equal"] > counts["refused by Django"]
