"""What a provider tells of a mail while that is tried again, or long before it is recorded."""

from datetime import UTC, datetime, timedelta

import pytest
from anymail.signals import AnymailTrackingEvent, tracking
from django.utils import timezone

from django_dbqueue.mail.deliveries import Delivery, Outcome
from django_dbqueue.mail.models import Email, ProviderNote
from django_dbqueue.mail.tracking import LateEvents
from django_dbqueue.states import Status
from tests.kit.jobs import claim_one, fresh, overwrite, table
from tests.kit.mail import outcomes, queued, run_claimed, run_mail, sent

pytestmark = [pytest.mark.usefixtures("db_rows", "esp"), pytest.mark.each_database]

ANNA = "anna@x.example"


def tell_of_a_bounce(name):
    tell("bounced", name, reject_reason="bounced", mta_response="smtp; 550 5.1.1 no such user")


def tell(kind, name, **more):
    event = AnymailTrackingEvent(
        event_type=kind,
        recipient=ANNA,
        message_id=name,
        timestamp=datetime(2100, 1, 1, tzinfo=UTC),
        **more,
    )
    tracking.send(sender=None, event=event, esp_name="Test")


def said(outcome):
    return {ANNA: Delivery(outcome).stored()}


def test_a_bounce_of_who_was_put_off_before_is_noted_once_the_next_attempt_has_ended():
    email = sent("anna")
    columns = {"finished_at": None, "owner": None, "deliveries": said(Outcome.DEFERRED)}
    overwrite(email, status=Status.READY, **columns)
    job = claim_one(Email)
    tell_of_a_bounce(email.provider_id)
    job.deliveries = said(Outcome.DELIVERED)
    job.complete()
    LateEvents()(table(Email))
    assert outcomes(fresh(email))["anna"] == ("refused", 550)


def test_what_was_delivered_before_its_run_heard_no_answer_is_not_sent_again(esp):
    email = queued("anna")
    job = claim_one(Email)
    tell("delivered", email.message_id)
    job.deliveries = said(Outcome.IN_DOUBT)
    job.fail(TimeoutError("no answer"))
    LateEvents()(table(Email))
    assert outcomes(fresh(email)) == {"anna": ("delivered", None)}
    assert not ProviderNote.objects.exists()
    overwrite(email, status=Status.READY, retry_at=None)
    run_mail()
    assert (fresh(email).mail_state, esp) == ("sent", [])


def test_that_it_was_delivered_is_forgotten_where_its_run_has_said_so_as_well(esp):
    email = queued("anna")
    job = claim_one(Email)
    tell("delivered", email.message_id)
    run_claimed(job)
    before = fresh(email).deliveries
    assert LateEvents()(table(Email)) == 1
    assert (fresh(email).deliveries, ProviderNote.objects.exists()) == (before, False)


@pytest.mark.parametrize(("minutes", "is_kept"), [(59, True), (61, False)])
def test_news_of_a_mail_that_nobody_knows_are_kept_for_an_hour(minutes, is_kept):
    tell_of_a_bounce("nobody's")
    ProviderNote.objects.update(created_at=timezone.now() - timedelta(minutes=minutes))
    LateEvents()(table(Email))
    assert ProviderNote.objects.exists() == is_kept
