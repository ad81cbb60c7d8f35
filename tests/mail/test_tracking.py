"""What providers tell of mail later, by anymail: bounces, complaints, webhooks."""

import base64
import json
from datetime import UTC, datetime

import pytest
from anymail.signals import AnymailTrackingEvent, tracking
from django.test import Client

from django_dbqueue.mail.models import ArchivedEmail, Email, Suppression
from django_dbqueue.mail.models.suppression import Reason
from django_dbqueue.states import Status
from tests.kit.jobs import claim_one, fresh, overwrite
from tests.kit.mail import deliver_to, queued, run_mail, sent
from tests.kit.mail_provider import POSTMARK, TAKEN, provider

pytestmark = [pytest.mark.usefixtures("db_rows", "own_connections"), pytest.mark.each_database]

OLD, LATE = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)


def tell(kind, address="anna@x.example", reason=None, **more):
    event = AnymailTrackingEvent(
        event_type=kind,
        recipient=address,
        reject_reason=reason,
        **{"message_id": "esp-1", "timestamp": datetime(2100, 1, 1, tzinfo=UTC), **more},
    )
    tracking.send(sender=None, event=event, esp_name="Test")


@pytest.mark.parametrize(
    ("kind", "why", "reason"),
    [
        ("bounced", "bounced", Reason.BOUNCE),
        ("bounced", "invalid", Reason.BOUNCE),
        ("bounced", None, Reason.BOUNCE),
        ("complained", "spam", Reason.COMPLAINT),
        ("unsubscribed", None, Reason.UNSUBSCRIBED),
        ("rejected", "bounced", Reason.BOUNCE),
        ("rejected", "invalid", Reason.BOUNCE),
        ("rejected", "spam", Reason.COMPLAINT),
        ("rejected", "unsubscribed", Reason.UNSUBSCRIBED),
    ],
)
def test_who_bounced_complained_or_unsubscribed_gets_no_more_mail(esp, kind, why, reason):
    tell(kind, "Anna@X.example", why, description="no such user", mta_response="smtp; 550 5.1.1")
    [row] = Suppression.objects.all()
    assert (row.address, row.reason) == ("anna@x.example", reason)
    assert row.note == f"Test: {kind} no such user smtp; 550 5.1.1"
    email = queued()
    run_mail()
    assert esp == []
    assert fresh(email).deliveries["anna@x.example"]["outcome"] == "suppressed"


@pytest.mark.parametrize(
    ("kind", "why", "more"),
    [
        ("bounced", "blocked", {}),
        ("bounced", "timed_out", {}),
        ("bounced", "other", {}),
        ("bounced", "bounced", {"mta_response": "smtp; 452 4.2.2 mailbox full"}),
        ("bounced", "bounced", {"esp_event": {"event": "soft_bounce"}}),
        ("bounced", "bounced", {"esp_event": {"bounce": {"bounceType": "Transient"}}}),
        ("bounced", None, {"esp_event": {"event": "bounce", "type": "blocked"}}),
        ("bounced", "bounced", {"esp_event": {"event": "bounce", "hard_bounce": False}}),
        ("bounced", "bounced", {"esp_event": [{"Type": "SoftBounce"}]}),
        ("rejected", "blocked", {}),
        ("rejected", None, {}),
        ("failed", None, {}),
        ("deferred", None, {}),
        ("delivered", None, {}),
        ("opened", None, {}),
        ("subscribed", None, {}),
        ("unknown", None, {}),
    ],
)
def test_what_may_pass_by_suppresses_nobody(kind, why, more):
    tell(kind, reason=why, **more)
    assert not Suppression.objects.exists()


def test_ones_own_words_beside_an_event_are_not_the_providers():
    tell("bounced", reason="bounced", esp_event={"Metadata": {"type": "soft launch"}})
    assert Suppression.objects.exists()


def archive(email):
    Email.objects.filter(pk=email.pk).cancel()
    return ArchivedEmail.objects.get(pk=email.pk)


@pytest.mark.parametrize("place", [fresh, archive])
@pytest.mark.parametrize("kind", ["bounced", "rejected", "failed"])
def test_a_bounce_is_the_recipients_outcome_from_then_on(esp, kind, place):
    email = place(sent("Anna", "berta"))
    tell(kind, "anna@X.example", "bounced", mta_response="smtp; 550 5.1.1 no such user")
    email = fresh(email)
    known = email.deliveries["Anna@x.example"]
    assert (known["outcome"], known["code"]) == ("refused", 550)
    assert "no such user" in known["text"]
    assert email.deliveries["berta@x.example"]["outcome"] == "delivered"
    assert (email.status, email.mail_state) == (Status.DONE, "partly sent")


def test_mail_that_bounced_for_all_reads_failed(esp):
    email = sent("anna")
    tell("bounced", reason="bounced")
    assert fresh(email).mail_state == "failed"


@pytest.mark.parametrize("kind", ["delivered", "deferred", "opened", "complained", "unsubscribed"])
def test_what_was_delivered_stays_so(esp, kind):
    email = sent("anna")
    tell(kind)
    assert fresh(email).deliveries == email.deliveries


@pytest.mark.parametrize("outcome", ["deferred", "in doubt"])
@pytest.mark.parametrize(
    ("kind", "at", "then"),
    [("delivered", OLD, "delivered"), ("bounced", LATE, "refused"), ("bounced", OLD, None)],
)
def test_of_an_attempt_whose_answer_was_lost_the_provider_knows_more(esp, outcome, kind, at, then):
    email = queued("anna", "berta")
    known = {"outcome": outcome, "at": "2026-01-01T00:00:00+00:00", "under_way": True}
    berta = {"berta@x.example": {"outcome": "delivered"}}
    columns = {"deliveries": {"anna@x.example": known} | berta, "attempts": 1}
    overwrite(email, status=Status.DELAYED, retry_at=LATE, **columns)
    tell(kind, reason="blocked", message_id=email.message_id.strip("<>"), timestamp=at)
    assert fresh(email).deliveries["anna@x.example"]["outcome"] == (then or outcome)
    overwrite(email, status=Status.READY, retry_at=None)
    run_mail()
    assert len(esp) == (then is None)


def test_of_an_attempt_without_an_answer_the_provider_knows_more_than_a_later_one(esp):
    email = queued("anna")
    known = {"outcome": "refused", "at": "2026-01-01T00:00:00+00:00", "doubts": 1}
    overwrite(email, status=Status.BURIED, finished_at=LATE, deliveries={"anna@x.example": known})
    assert fresh(email).is_in_doubt
    tell("delivered", message_id=email.message_id, timestamp=OLD)
    assert fresh(email).deliveries["anna@x.example"]["outcome"] == "delivered"
    run_mail()
    assert (fresh(email).mail_state, esp) == ("sent", [])


@pytest.mark.parametrize(
    ("others", "state", "status"),
    [
        ({}, "sent", Status.DONE),
        ({"berta@x.example": {"outcome": "suppressed"}}, "partly sent", Status.DONE),
        ({"berta@x.example": {"outcome": "refused"}}, "partly sent", Status.BURIED),
        ({"berta@x.example": {"outcome": "in doubt"}}, "in doubt", Status.BURIED),
    ],
)
def test_mail_in_doubt_ends_as_any_other_once_it_was_delivered(esp, others, state, status):
    Suppression.objects.create(address="berta@x.example")
    email = queued("anna", *("berta" for _ in others))
    doubt = {"anna@x.example": {"outcome": "in doubt"}}
    overwrite(email, status=Status.BURIED, finished_at=LATE, deliveries=doubt | others)
    tell("delivered", message_id=email.message_id)
    assert fresh(email).deliveries["anna@x.example"]["outcome"] == "delivered"
    run_mail()
    assert (fresh(email).mail_state, fresh(email).status, esp) == (state, status, [])


def test_an_erased_mail_in_doubt_reads_sent_once_it_was_delivered(esp):
    email = queued("anna")
    doubt = {"anna@x.example": {"outcome": "in doubt"}}
    columns = {"finished_at": LATE, "is_erased": True, "message": ""}
    overwrite(email, status=Status.BURIED, deliveries=doubt, **columns)
    tell("delivered", message_id=email.message_id)
    assert (fresh(email).mail_state, fresh(email).status) == ("sent", Status.BURIED)


def test_a_soft_bounce_ends_when_it_was_delivered_after_all_but_not_before(esp):
    email = sent("anna")
    tell("bounced", reason="bounced", mta_response="452 full")
    tell("delivered", timestamp=datetime(2000, 1, 1, tzinfo=UTC))
    assert fresh(email).deliveries["anna@x.example"]["outcome"] == "refused"
    tell("delivered", timestamp=datetime(2101, 1, 1, tzinfo=UTC))
    assert fresh(email).deliveries["anna@x.example"]["outcome"] == "delivered"


def test_mail_that_a_worker_has_in_hand_is_left_to_it(esp):
    email = sent("anna")
    Email.objects.filter(pk=email.pk).cancel()
    email = queued("anna")
    overwrite(email, provider_id="esp-1", deliveries={"anna@x.example": {"outcome": "delivered"}})
    job = claim_one(Email)
    tell("bounced", reason="bounced")
    assert fresh(job).deliveries == {"anna@x.example": {"outcome": "delivered"}}
    assert Suppression.objects.exists()


@pytest.mark.parametrize(
    "more",
    [
        {"message_id": "of-somebody-else"},
        {"message_id": None},
        {"address": "stranger@x.example"},
        {"address": None},
        {"address": ""},
        {"address": "no address"},
        {"address": "anna\0@x.example"},
        {"address": "a" * 400 + "@x.example"},
        {"message_id": "\0\ud800"},
        {"timestamp": None, "message_id": "else"},
        {"description": "\0\ud800", "message_id": "else"},
        {"esp_event": {"type": ["soft", {"x": 1}]}, "message_id": "else"},
    ],
)
def test_events_about_nobody_we_know_do_no_harm(esp, more):
    email = sent("anna")
    tell("bounced", reason="bounced", **more)
    assert fresh(email).deliveries == email.deliveries


def test_a_row_that_a_hand_has_filled_with_nonsense_does_no_harm(esp):
    email = sent("anna")
    overwrite(email, deliveries=["?"])
    tell("bounced", reason="bounced")
    assert Suppression.objects.exists()


def post(event, secret="user:secret"):
    credentials = base64.b64encode(secret.encode()).decode()
    return Client().post(
        "/anymail/postmark/tracking/",
        json.dumps(event),
        content_type="application/json",
        headers={"Authorization": f"Basic {credentials}"},
    )


@pytest.fixture
def webhooks(settings):
    settings.ROOT_URLCONF = "tests.kit.anymail_urls"
    settings.ANYMAIL = {**getattr(settings, "ANYMAIL", {}), "WEBHOOK_SECRET": "user:secret"}


BOUNCE = {
    "RecordType": "Bounce",
    "ID": 42,
    "Type": "HardBounce",
    "TypeCode": 1,
    "Name": "Hard bounce",
    "MessageID": "pm-1",
    "Description": "The server was unable to deliver your message (ex: unknown user).",
    "Details": "smtp;550 5.1.1 The email account that you tried to reach does not exist.",
    "Email": "anna@x.example",
    "BouncedAt": "2100-04-27T16:28:50.3963933-04:00",
}


def test_from_the_queue_to_the_provider_its_webhook_and_the_next_mail(settings, webhooks):
    with provider(200, TAKEN) as (address, received):
        settings.ANYMAIL |= {"POSTMARK_SERVER_TOKEN": "t", "POSTMARK_API_URL": address}
        deliver_to(settings, 0, POSTMARK)
        first = queued()
        run_mail()
        assert fresh(first).provider_id == "pm-1"
        assert post(BOUNCE).status_code == 200
        second = queued("anna", "berta")
        run_mail()
    first, second = fresh(first), fresh(second)
    assert [one["To"] for one in received] == ["anna@x.example", "berta@x.example"]
    assert first.deliveries["anna@x.example"]["outcome"] == "refused"
    assert first.mail_state == "failed"
    assert second.deliveries["anna@x.example"]["outcome"] == "suppressed"
    [row] = Suppression.objects.all()
    assert row.note.startswith("Postmark: bounced The server was unable")


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (BOUNCE | {"Type": "SoftBounce", "Name": "Soft bounce"}, None),
        (BOUNCE | {"Type": "Transient"}, None),
        (BOUNCE | {"Type": "BadEmailAddress"}, Reason.BOUNCE),
        (BOUNCE | {"RecordType": "SpamComplaint", "Type": "SpamComplaint"}, Reason.COMPLAINT),
        (
            {
                "RecordType": "SubscriptionChange",
                "Recipient": "anna@x.example",
                "SuppressSending": True,
                "SuppressionReason": "ManualSuppression",
            },
            Reason.UNSUBSCRIBED,
        ),
    ],
)
def test_a_providers_own_words_are_understood(webhooks, event, reason):
    assert post(event).status_code == 200
    assert [row.reason for row in Suppression.objects.all()] == ([reason] if reason else [])


def test_who_does_not_know_the_secret_suppresses_nobody(webhooks):
    assert post(BOUNCE, "user:guess").status_code == 400
    assert not Suppression.objects.exists()
