"""What a provider tells of a mail too early, or by one of several names, reaches its row."""

from datetime import UTC, datetime, timedelta

import pytest
from anymail.message import AnymailRecipientStatus
from anymail.signals import AnymailTrackingEvent, tracking
from django.core.management import call_command
from django.utils import timezone

from django_dbqueue.mail.models import ArchivedEmail, Email, ProviderNote, Suppression
from django_dbqueue.mail.sending import connections
from django_dbqueue.mail.tracking import CHUNK, LateEvents
from django_dbqueue.states import Status
from django_dbqueue.worker import reaper as core
from tests.kit.jobs import claim_one, fresh, overwrite, reaper, table
from tests.kit.mail import deliver_to, outcomes, queued, run_claimed, run_mail, sent
from tests.kit.mail_provider import Provider

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.each_database]

NAME = "esp-1"


class OneNameEach(Provider):
    """Calls the mail to each recipient by a name of its own."""

    def post_to_esp(self, payload, message):
        answer = super().post_to_esp(payload, message)
        return {
            "recipient_status": {
                address: AnymailRecipientStatus(f"to-{address}", one.status)
                for address, one in answer["recipient_status"].items()
            }
        }


class Hasty(Provider):
    """Tells of a bounce before it has even answered."""

    def post_to_esp(self, payload, message):
        tell(payload.recipient_emails[0])
        return super().post_to_esp(payload, message)


@pytest.fixture(autouse=True)
def esp(settings):
    connections.close_connections()
    deliver_to(settings, 0, "tests.kit.mail_provider.Provider")
    yield lambda kind: deliver_to(settings, 0, f"{__name__}.{kind.__name__}")
    connections.close_connections()


@pytest.fixture
def tidy(monkeypatch):
    """A look of the reaper; how much was tidied up."""
    chore = LateEvents()
    return lambda: chore(table(Email))


def tell(address="anna@x.example", kind="bounced", name=NAME, **more):
    event = AnymailTrackingEvent(
        event_type=kind,
        recipient=address,
        reject_reason="bounced" if kind == "bounced" else None,
        message_id=name,
        timestamp=datetime(2100, 1, 1, tzinfo=UTC),
        **{"mta_response": "smtp; 550 5.1.1 no such user", **more},
    )
    tracking.send(sender=None, event=event, esp_name="Test")


def grow_old(seconds):
    past = timezone.now() - timedelta(seconds=seconds)
    ProviderNote.objects.update(created_at=past)


# --- too early ----------------------------------------------------------------------------------


def test_a_bounce_that_comes_before_the_provider_has_answered_is_noted_in_the_end(esp, tidy):
    esp(Hasty)
    email = queued("anna", "berta")
    job = claim_one(Email)
    job.run()
    assert tidy() == 0  # it is still in a worker's hands
    job.complete()
    assert outcomes(fresh(email))["anna"] == ("delivered", None)
    assert tidy() == 1
    assert outcomes(fresh(email)) == {"anna": ("refused", 550), "berta": ("delivered", None)}
    assert fresh(email).mail_state == "partly sent"
    assert not ProviderNote.objects.exists()


def test_who_bounced_early_gets_no_more_mail_from_that_moment_on(esp):
    esp(Hasty)
    sent("anna")
    assert Suppression.objects.filter(address="anna@x.example").exists()


def test_a_bounce_of_mail_that_is_tried_again_just_now_is_noted_in_the_end(tidy):
    email = sent("anna", "berta")
    overwrite(email, status=Status.READY, finished_at=None, owner=None)
    job = claim_one(Email)
    tell()
    job.complete()
    tidy()
    assert outcomes(fresh(email))["anna"] == ("refused", 550)


def test_it_is_noted_in_the_archive_too(esp, tidy):
    esp(Hasty)
    email = sent("anna")
    Email.objects.filter(pk=email.pk).cancel()
    tidy()
    assert outcomes(ArchivedEmail.objects.get(pk=email.pk)) == {"anna": ("refused", 550)}


@pytest.mark.parametrize("kind", ["delivered", "deferred", "opened", "complained"])
def test_what_the_row_will_say_by_itself_is_not_kept(kind):
    tell(kind=kind)
    assert not ProviderNote.objects.exists()


def test_news_of_mail_that_is_none_of_ours_is_given_up_after_an_hour(tidy):
    tell(name="of somebody else")
    assert tidy() == 0
    grow_old(3700)
    assert tidy() == 1
    assert not ProviderNote.objects.exists()


def test_much_news_of_others_does_not_hide_ours(esp, tidy):
    ProviderNote.objects.bulk_create(
        ProviderNote(name=f"other-{n}", address="anna@x.example", news={"outcome": "refused"})
        for n in range(CHUNK + 5)
    )
    esp(Hasty)
    email = sent("anna")
    assert [tidy(), tidy()] == [0, 1]
    assert outcomes(fresh(email)) == {"anna": ("refused", 550)}


def test_every_reaper_does_this_where_anymail_is_installed(esp):
    esp(Hasty)
    email = sent("anna")
    one = reaper(Email)
    one.clean_at.clear()
    one.turn(judge=lambda: False)
    assert outcomes(fresh(email)) == {"anna": ("refused", 550)}
    assert "dbqueue_mail.email" in core.MAINTENANCE


def test_news_that_a_hand_has_written_does_no_harm(tidy):
    ProviderNote.objects.create(name=NAME, address="anna@x.example", news=["?"])
    assert tidy() == 1


def test_forgetting_a_person_forgets_early_news_of_them(capsys):
    tell("anna@x.example")
    tell("berta@x.example", mta_response="550 <Anna@x.example> unknown")
    tell("carla@x.example")
    call_command("forget_address", "anna@x.example", "--dry-run")
    assert ProviderNote.objects.count() == 3
    call_command("forget_address", "anna@x.example")
    assert "early news: 2 deleted" in capsys.readouterr().out
    assert [one.address for one in ProviderNote.objects.all()] == ["carla@x.example"]


# --- by several names ---------------------------------------------------------------------------


def test_each_recipient_is_found_by_the_name_that_their_mail_has(esp):
    esp(OneNameEach)
    email = sent("anna", "berta", "carla")
    for name in ("berta", "carla"):
        tell(f"{name}@x.example", name=f"to-{name}@x.example")
    assert outcomes(fresh(email)) == {
        "anna": ("delivered", None),
        "berta": ("refused", 550),
        "carla": ("refused", 550),
    }
    tell("anna@x.example", name="to-anna@x.example")
    assert fresh(email).mail_state == "failed"


def test_an_early_bounce_by_one_of_several_names_is_noted_too(esp, tidy):
    esp(OneNameEach)
    tell("berta@x.example", name="to-berta@x.example")
    email = queued("anna", "berta")
    Suppression.objects.all().delete()
    run_mail()
    tidy()
    assert outcomes(fresh(email)) == {"anna": ("delivered", None), "berta": ("refused", 550)}


def test_mail_that_is_sent_once_more_is_known_by_its_first_name_as_well(esp):
    esp(OneNameEach)
    email = sent("anna", "rejected")
    Email.objects.filter(pk=email.pk).kick()
    run_claimed(claim_one(Email))
    tell("anna@x.example", name="to-anna@x.example")
    assert outcomes(fresh(email))["anna"] == ("refused", 550)


@pytest.mark.parametrize("spell", [str, lambda name: name.strip("<>")])
def test_a_provider_may_call_it_by_its_message_id(spell):
    email = sent("anna")
    tell(name=spell(email.message_id))
    assert outcomes(fresh(email)) == {"anna": ("refused", 550)}


def test_names_are_forgotten_after_a_month(esp, tidy):
    esp(OneNameEach)
    sent("anna", "berta", "carla")
    assert ProviderNote.objects.count() == 2
    grow_old(29 * 86400)
    assert tidy() == 0
    grow_old(31 * 86400)
    assert LateEvents()(table(Email)) == 2
