"""Mail by providers with django-anymail: how it gets there."""

import pytest
from anymail.exceptions import AnymailAPIError

from django_dbqueue.mail.models import Mailer
from django_dbqueue.mail.outcomes import classify, explain
from django_dbqueue.states import Status
from tests.kit.jobs import fresh
from tests.kit.mail import deliver_to, enqueue, letter, queued, run_mail
from tests.kit.mail_provider import POSTMARK, TAKEN, provider

pytestmark = pytest.mark.usefixtures("db_rows", "own_connections")


def test_what_is_meant_for_the_provider_arrives_as_it_was_queued(esp):
    extra = {
        "tags": ["order", "süß"],
        "metadata": {"order": 7},
        "template_id": "welcome",
        "merge_data": {"anna@x.example": {"name": "Anna"}},
        "merge_global_data": {"shop": "X"},
        "track_opens": False,
        "esp_extra": {"stream": {"id": "outbound"}},
    }
    message = letter()
    vars(message).update(extra)
    email = enqueue(message)
    run_mail()
    params = esp[0].anymail_test_params
    given = {name: params[name] for name in extra if name != "esp_extra"}
    assert given | {"esp_extra": {"stream": params["stream"]}} == extra
    assert fresh(email).mail_state == "sent"


def test_each_recipient_has_the_status_that_the_provider_gave(esp):
    email = queued("anna", "rejected", "invalid", "queued")
    run_mail()
    email = fresh(email)
    outcomes = {name: one["outcome"] for name, one in email.deliveries.items()}
    assert outcomes == {
        "anna@x.example": "delivered",
        "rejected@x.example": "refused",
        "invalid@x.example": "refused",
        "queued@x.example": "delivered",
    }
    assert (email.provider_id, email.mail_state) == ("esp-1", "partly sent")
    assert email.status == Status.BURIED


def test_mail_that_the_provider_refuses_to_all_fails(esp):
    email = queued("rejected", "invalid")
    run_mail()
    assert fresh(email).mail_state == "failed"


@pytest.mark.parametrize(
    ("status", "state", "rests"),
    [
        (401, Status.DELAYED, False),
        (422, Status.BURIED, False),
        (429, Status.DELAYED, True),
        (500, Status.DELAYED, False),
        (503, Status.DELAYED, False),
    ],
)
def test_an_answer_of_a_providers_interface_means_what_its_status_says(
    settings, status, state, rests
):
    with provider(status, {"ErrorCode": 10, "Message": "No!"}) as (address, received):
        settings.ANYMAIL = {"POSTMARK_SERVER_TOKEN": "t", "POSTMARK_API_URL": address}
        deliver_to(settings, 0, POSTMARK)
        email = queued()
        run_mail()
    assert len(received) == 1
    email = fresh(email)
    assert email.status == state
    assert (email.deliveries["anna@x.example"]["code"], email.attempts) == (status, 1)
    assert "No!" in email.last_error
    assert Mailer.objects.filter(paused_until__isnull=False).exists() == rests


def test_a_provider_that_cannot_be_reached_is_asked_again(settings):
    with provider(200, TAKEN) as (address, _):
        pass
    settings.ANYMAIL = {"POSTMARK_SERVER_TOKEN": "t", "POSTMARK_API_URL": address}
    deliver_to(settings, 0, POSTMARK)
    email = queued()
    run_mail()
    assert fresh(email).status == Status.DELAYED


@pytest.mark.parametrize(
    ("status", "meaning"), [(401, "retry"), (422, "fail"), (429, "pause"), (500, "retry")]
)
def test_an_error_of_anymail_is_judged_and_told_even_where_it_cannot_tell_itself(status, meaning):
    # Without a response, str() of it fails.
    error = AnymailAPIError("No!", status_code=status)
    assert classify(error) == meaning
    assert explain(error).startswith("AnymailAPIError: ")
