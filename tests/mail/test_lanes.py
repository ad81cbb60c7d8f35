"""The lanes in which mail of limited and resting mailers waits, and what workers leave there."""

import pytest

from django_dbqueue.mail.models import Email, Mailer
from django_dbqueue.models import RateBucket
from django_dbqueue.states import Status
from django_dbqueue.worker.served import parse_served
from tests.kit.inline_worker import work_off
from tests.kit.jobs import fresh
from tests.kit.mail import HAS_MAILERS, MEMORY, letter, setting

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.each_database]


@pytest.fixture(autouse=True)
def mailers(settings):
    """Two of them that deliver into memory; 'slow' is limited."""
    if HAS_MAILERS:
        settings.MAILERS = {name: {"BACKEND": MEMORY} for name in ("slow", "quick")}
    settings.DBQUEUE = {} if HAS_MAILERS else {"MAIL_DELIVERY_BACKEND": MEMORY}
    setting(settings, MAIL_LIMITS={"slow": {"hour": 2}})


def queued(using, *to, **wishes):
    email = Email.from_message(letter(*to), using=using, **wishes)
    email.save()
    return email


def statuses(emails):
    return [fresh(email).status for email in emails]


def work():
    return work_off("dbqueue_mail.email")


def used():
    bucket = Mailer.objects.named("slow").bucket()
    return bucket.used(bucket.rates[0])


DONE, READY = Status.DONE, Status.READY


def test_mail_over_a_limit_is_not_even_claimed_and_another_mailer_goes_on():
    limited = [queued("slow") for _ in range(5)]
    others = [queued("quick") for _ in range(5)]
    assert {email.queue for email in limited} == {"default@slow"}
    assert {email.queue for email in others} == {"default"}
    work()
    assert statuses(limited) == [DONE, DONE, READY, READY, READY]
    assert statuses(others) == [DONE] * 5
    assert [fresh(email).attempts for email in limited[2:]] == [0, 0, 0]


def test_urgent_mail_goes_first():
    usual = [queued("slow") for _ in range(3)]
    first, second = queued("slow", priority="urgent"), queued("slow", priority=0)
    work()
    assert statuses([first, second, *usual]) == [DONE, DONE, READY, READY, READY]


def test_mail_to_many_takes_as_many_tokens_and_waits_for_them(settings):
    setting(settings, MAIL_LIMITS={"slow": {"hour": 5}})
    first, large, last = queued("slow"), queued("slow", *"abcde"), queued("slow")
    work()
    assert statuses([first, large, last]) == [DONE, READY, READY]
    setting(settings, MAIL_LIMITS={"slow": {"hour": 6}})
    work()
    assert statuses([large, last]) == [DONE, READY]


def test_tokens_for_recipients_who_get_nothing_are_given_back(settings):
    setting(settings, MAIL_LIMITS={"slow": {"hour": 5}}, MAIL_ALLOWED_DOMAINS=["x.example"])
    emails = [queued("slow", "a", "b@y.example", "c@y.example", "d@y.example") for _ in range(2)]
    work()
    assert {fresh(email).mail_state for email in emails} == {"partly sent"}
    assert used() == 2


def test_mail_that_was_queued_before_there_was_a_limit_is_moved_to_its_lane(settings):
    setting(settings, MAIL_LIMITS={})
    emails = [queued("slow") for _ in range(4)]
    assert {email.queue for email in emails} == {"default"}
    setting(settings, MAIL_LIMITS={"slow": {"hour": 2}})
    work()
    assert statuses(emails) == [DONE, DONE, READY, READY]
    assert {fresh(email).queue for email in emails} == {"default@slow"}


def test_after_a_limit_was_removed_what_waits_goes_at_once(settings):
    emails = [queued("slow") for _ in range(4)]
    work()
    setting(settings, MAIL_LIMITS={})
    work()
    assert statuses(emails) == [DONE] * 4


@pytest.mark.parametrize("using", ["slow", "quick"])
def test_the_mail_of_a_mailer_that_rests_is_held_without_claims_and_goes_when_it_ends(using):
    Mailer.objects.pause(using, 600, "421")
    email, other = queued(using), queued("quick" if using == "slow" else "slow")
    work()
    assert statuses([email, other]) == [READY, DONE]
    assert (fresh(email).queue, fresh(email).attempts) == (f"default@{using}", 0)
    Mailer.objects.resume(using)
    work()
    assert fresh(email).status == DONE


def test_a_paused_queue_and_one_that_is_served_have_their_lanes_with_them():
    email = queued("slow")
    [served] = parse_served(["dbqueue_mail.email:default"])
    assert served.takes("default@slow")
    [others] = parse_served(["dbqueue_mail.email"], without=["dbqueue_mail.email:default"])
    assert not others.takes("default@slow")
    Email.objects.pause("default")
    work()
    assert fresh(email).status == READY
    assert Email.objects.claim() == []
    Email.objects.resume("default")
    work_off("dbqueue_mail.email:default")
    assert fresh(email).status == DONE


def test_a_loop_of_one_s_own_claims_from_the_lanes_too():
    email = queued("slow")
    [job] = Email.objects.claim()
    assert job.pk == email.pk


def test_a_worker_gives_back_what_it_has_leased_and_not_used():
    queued("slow")
    work()
    assert used() == 1
    assert RateBucket.objects.get().name == "slow"
