"""What a dry run says beforehand is what a worker then does."""

from datetime import timedelta

import django
import pytest
from django.core.management import call_command
from django.utils import timezone

from django_dbqueue.mail import rows
from django_dbqueue.mail.models import Email, Mailer, Suppression
from django_dbqueue.mail.models.suppression import Reason
from django_dbqueue.states import Status
from tests.kit.jobs import fresh, overwrite
from tests.kit.mail import USING, deliver_to, queued, run_mail, setting
from tests.kit.query_plans import captured

pytestmark = pytest.mark.usefixtures("db_rows")

DELIVERS = USING.get("using", "default")


@pytest.fixture
def tell(capsys):
    """What a dry run says, by the mail's key; and how many it says would be sent."""

    def call():
        call_command("send_queued_mail", "--dry-run")
        *lines, summary = capsys.readouterr().out.splitlines()
        told = dict(line.split(" ", 1) for line in lines)
        return {int(key): words for key, words in told.items()}, int(summary.split()[-1])

    return call


def test_mail_that_would_be_over_the_limit_is_told_and_no_token_is_taken(server, settings, tell):
    setting(settings, MAIL_LIMITS={DELIVERS: {"hour": 5}})
    emails = [queued("anna", "berta"), queued("anna", "berta"), queued("anna", "berta")]
    told, count = tell()
    assert count == 2
    assert "at its limit: not before 36" in told[emails[2].pk]
    assert not Mailer.objects.exists()
    run_mail()
    assert [fresh(one).status for one in emails] == [Status.DONE, Status.DONE, Status.DELAYED]


def test_what_has_gone_out_before_counts(server, settings, tell):
    setting(settings, MAIL_LIMITS={DELIVERS: {"hour": 2}})
    queued("anna", "berta")
    run_mail()
    late = queued("carla")
    told, count = tell()
    assert (count, "at its limit" in told[late.pk]) == (0, True)


def test_mail_that_is_kept_back_anyway_takes_nothing_of_the_limit(server, settings, tell):
    setting(settings, MAIL_LIMITS={DELIVERS: {"hour": 1}})
    Suppression.objects.suppress("anna@x.example", Reason.BOUNCE)
    queued("anna")
    expired = queued("berta")
    overwrite(expired, expires_at=timezone.now() - timedelta(minutes=1))
    late = queued("carla")
    told, count = tell()
    assert (count, told[late.pk]) == (1, f"by {DELIVERS}: to carla@x.example")


def test_a_mail_that_nobody_can_read_and_that_has_expired_is_told_both(server, tell):
    email = queued("anna")
    past = timezone.now() - timedelta(minutes=1)
    overwrite(email, message="{}", expires_at=past)
    said = tell()[0][email.pk]
    assert "cannot be read" in said
    assert "has expired" in said


@pytest.mark.parametrize(
    "backend", ["no.such.Backend", "django_dbqueue.mail.backends.EmailBackend"]
)
def test_a_mailer_that_cannot_deliver_is_told(settings, tell, backend):
    deliver_to(settings, 0, backend)
    email = queued("anna")
    told, count = tell()
    assert (count, "no mailer for it" in told[email.pk]) == (0, True)
    run_mail()
    assert fresh(email).status == Status.DELAYED


@pytest.mark.skipif(django.VERSION < (6, 1), reason="needs MAILERS")
def test_a_mailer_that_is_configured_no_more_is_told_and_loses_no_mail(server, tell):
    email = queued("anna")
    overwrite(email, using="gone")
    told, count = tell()
    assert (count, "no mailer for it" in told[email.pk]) == (0, True)
    run_mail()
    assert fresh(email).status == Status.DELAYED


def test_limits_that_make_no_sense_are_told(server, settings, tell):
    setting(settings, MAIL_LIMITS={DELIVERS: {"fortnight": 1}})
    email = queued("anna")
    told, count = tell()
    assert (count, "fortnight" in told[email.pk]) == (0, True)
    run_mail()
    assert fresh(email).status == Status.DELAYED


def test_what_it_says_of_a_mix_of_mail_is_what_happens(server, settings, tell):
    setting(settings, MAIL_ALLOWED_DOMAINS=["x.example"])
    Suppression.objects.suppress("anna@x.example", Reason.COMPLAINT)
    emails = [queued(*names) for names in (["anna"], ["anna", "berta"], ["carla"], ["dora"])]
    elsewhere = queued("emma", cc=["emma@y.example"])
    overwrite(emails[3], retry_at=timezone.now(), status=Status.DELAYED)
    told, count = tell()
    Email.objects.filter(pk=emails[3].pk).kick()
    run_mail()
    assert len(server.received) == count == 4
    for email in [*emails, elsewhere]:
        sent = "to nobody" not in told[email.pk]
        assert (fresh(email).status == Status.DONE) == sent


def test_mail_that_goes_elsewhere_takes_as_much_of_the_limit_as_goes_out(server, settings, tell):
    more = {"MAIL_OVERRIDE_RECIPIENTS": ["dev@x.example"]}
    setting(settings, MAIL_LIMITS={DELIVERS: {"hour": 2}}, **more)
    emails = [queued("anna", "berta", "carla"), queued("dora", "emma")]
    assert tell()[1] == 2
    run_mail()
    assert [fresh(one).status for one in emails] == [Status.DONE, Status.DONE]
    assert server.got("dev") == 2


def test_mail_of_a_table_that_is_paused_as_a_whole_is_told(tell):
    email = queued("anna")
    Email.objects.pause("*")
    told, count = tell()
    assert (count, told[email.pk].endswith("is paused")) == (0, True)


@pytest.mark.parametrize("newest_first", [False, True])
def test_a_late_part_of_a_table_is_asked_for_in_no_more_words_than_an_early_one(
    monkeypatch, newest_first
):
    monkeypatch.setattr(rows, "WINDOW_ROWS", 2)
    keys = [queued("anna").pk for _ in range(21)]
    with captured(Email._meta.db_table) as statements:
        parts = [
            [one.pk for one in part.order_by("pk")]
            for part in rows.windows(Email.objects.all(), newest_first=newest_first)
        ]
    assert sorted(pk for part in parts for pk in part) == keys
    lengths = [len(one.sql) for one in statements]
    assert max(lengths) == max(lengths[:4])
