"""A failed mail is retried or sent again, not both at once: whoever lacks it would get it twice."""

import pytest
from django.db import connection, transaction

from django_dbqueue.mail.deliveries import Outcome
from django_dbqueue.mail.in_doubt import mark_as_sent
from django_dbqueue.mail.models import Email
from django_dbqueue.states import Status
from tests.kit.jobs import fresh, start
from tests.kit.mail import finished, letter, run_mail

pytestmark = [pytest.mark.usefixtures("db_rows", "queueing"), pytest.mark.each_database]

LIST = "/admin/dbqueue_mail/email/"


def failed(*names):
    return finished(letter(*[f"{name}@x.example" for name in names or ["anna"]]), failed=True)


def kick(*mails):
    return Email.objects.filter(pk__in=[mail.pk for mail in mails]).kick()


def test_what_is_being_sent_again_is_not_retried_as_well(mailoutbox):
    old = failed()
    new = old.resend()
    result = kick(old)
    assert (result.changed, result.skipped) == (0, 1)
    assert str(result) == (
        f"0 changed; 1 skipped: being sent again by email {new.pk}: "
        "retry that one, or mark it as failed first"
    )
    run_mail()
    assert fresh(old).status == Status.BURIED
    assert len(mailoutbox) == 1


@pytest.mark.parametrize("status", [Status.READY, Status.CLAIMED, Status.DELAYED])
def test_in_whatever_state_the_other_waits(status):
    old = failed()
    old.resend()
    if status != Status.READY:
        [job] = Email.objects.claim(limit=1)
    if status == Status.DELAYED:
        job.fail(TimeoutError("slow"))
    assert kick(old).skipped == 1


def test_it_is_retried_once_the_other_has_failed_or_is_gone():
    old, older = failed(), failed()
    kept, gone = old.resend(), older.resend()
    Email.objects.filter(pk=kept.pk).bury()
    gone.delete()
    assert str(kick(old, older)) == "2 changed"


def test_of_many_each_is_judged_for_itself():
    mails = [failed() for _ in range(6)]
    others = [mail.resend() for mail in mails[:4]]
    done = finished()
    result = kick(*mails, done)
    assert (result.changed, result.skipped) == (2, 5)
    named = ", ".join(str(other.pk) for other in others[:3])
    assert str(result).startswith(
        "2 changed, 1 skipped: their state had moved on; "
        f"4 skipped: being sent again by email {named}, ..: "
    )
    assert [fresh(mail).status for mail in mails] == [Status.BURIED] * 4 + [Status.READY] * 2


def test_the_admin_says_what_was_skipped_and_what_to_do(browser):
    old, other = failed(), failed()
    new = old.resend()
    action = {"action": "kick_selected", "_selected_action": [old.pk, other.pk]}
    page = browser.post(LIST, action, follow=True).content.decode()
    assert f"1 changed; 1 skipped: being sent again by email {new.pk}: retry that one" in page
    assert [fresh(one).status for one in (old, other)] == [Status.BURIED, Status.READY]


def test_who_was_in_doubt_is_marked_as_sent_without_a_retry_for_the_others():
    both = letter("anna@x.example", "berta@x.example")
    old = finished(both, failed=True, anna=Outcome.IN_DOUBT, berta=Outcome.DEFERRED)
    old.resend()
    assert mark_as_sent(old)
    assert fresh(old).deliveries["anna@x.example"]["outcome"] == Outcome.DELIVERED
    assert fresh(old).status == Status.BURIED


def test_a_retry_waits_for_whoever_is_sending_it_again():
    """One of the two has to wait, and sees the other."""
    if connection.vendor == "sqlite":
        pytest.skip("one writer at a time: there is nothing in between")
    old = failed()
    with transaction.atomic():
        old.resend()
        retry = start(lambda: kick(old))
        retry.join(0.5)
        assert retry.is_alive()
    result = retry.result()
    assert (result.changed, result.skipped) == (0, 1)
