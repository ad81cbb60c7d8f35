"""Mail that may have arrived, held for a person: from the stalled server to the person's word."""

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User

from django_dbqueue.lifecycle import archive, promotion
from django_dbqueue.mail.in_doubt import mark_as_sent
from django_dbqueue.mail.models import Email, Suppression
from django_dbqueue.mail.models.suppression import Reason
from django_dbqueue.mail.privacy.erase import erase
from django_dbqueue.mail.sending.dry_run import DryRun
from django_dbqueue.states import Status
from tests.kit.jobs import claim_one, fresh, overwrite, reap_owner, table
from tests.kit.mail import outcomes, queued, retried, run_mail, sent, setting

pytestmark = pytest.mark.usefixtures("db_rows", "impatient")

LIST = "/admin/dbqueue_mail/email/"


@pytest.fixture(autouse=True)
def held(server, settings):
    setting(settings, MAIL_IN_DOUBT="hold")


def act(browser, action, email):
    data = {"action": action, "_selected_action": [email.pk]}
    return browser.post(LIST, data, follow=True).content.decode()


def page(browser, email):
    return browser.get(f"{LIST}{email.pk}/change/").content.decode()


def while_it_was_sent(job):
    """Its worker was lost, and has not written how that ended."""
    with pytest.raises(Exception, match="in doubt"):
        job.run()
    assert reap_owner(table(Email), job.claim_owner) == 1


def while_it_was_run(job):
    """Its child died, which may have sent it without a mark."""
    assert reap_owner(table(Email), job.claim_owner, started=[str(job.pk)]) == 1


def cut_off(how):
    email = queued("stall")
    how(claim_one(Email))
    run_mail()
    return fresh(email)


WAYS = {
    "no answer": lambda: sent("stall"),
    "a lost worker": lambda: cut_off(while_it_was_sent),
    "a dead child": lambda: cut_off(while_it_was_run),
}


@pytest.mark.parametrize("way", WAYS)
def test_it_is_held_and_shown_and_nobody_sends_it(server, browser, way):
    email = WAYS[way]()
    assert (email.status, email.mail_state) == (Status.BURIED, "in doubt")
    assert email.last_error.startswith("in doubt: ")
    assert {one for one, _ in outcomes(email).values()} == {"in doubt"}
    assert "in doubt" in browser.get(LIST).content.decode()
    assert "Mark as sent" in page(browser, email)
    before = len(server.received) + len(server.unanswered)
    assert promotion.promote(table(Email)) == 0
    run_mail()
    assert len(server.received) + len(server.unanswered) == before


@pytest.mark.parametrize("way", WAYS)
def test_a_person_has_it_sent(server, browser, way):
    email = WAYS[way]()
    server.stalls = False
    act(browser, "kick_selected", email)
    run_mail()
    email = fresh(email)
    assert (email.status, len(server.received)) == (Status.DONE, 1)
    assert server.received[0].message["Message-ID"] == email.message_id


@pytest.mark.parametrize("way", WAYS)
def test_a_person_knows_that_it_arrived_and_it_ends_as_any_other(server, browser, way):
    email = WAYS[way]()
    assert "1 marked as sent" in act(browser, "settle_selected", email)
    seen = server.connections
    run_mail()
    email = fresh(email)
    assert (email.status, email.mail_state) == (Status.DONE, "sent")
    assert [one["text"] for one in email.deliveries.values()] == ["by the word of user0"]
    assert (server.connections, server.received) == (seen, [])
    assert email.retry_at is not None  # when it goes to the archive
    assert LogEntry.objects.filter(
        change_message__startswith="Marked as sent;", object_id=email.pk
    ).exists()
    LogEntry.objects.all().delete()


def test_who_was_refused_is_not_asked_again_by_that(server):
    email = sent("stall", "refuse")
    assert outcomes(email) == {"stall": ("in doubt", None), "refuse": ("refused", 550)}
    assert mark_as_sent(email)
    seen = server.connections
    run_mail()
    assert (fresh(email).status, fresh(email).mail_state) == (Status.BURIED, "partly sent")
    assert (server.connections, mark_as_sent(email)) == (seen, False)


def kept_back(server, settings, how, when):
    """Mail that was cut off on its way to one, and that two others may not have."""
    setting(settings, MAIL_ALLOWED_DOMAINS=["x.example"])
    Suppression.objects.suppress("berta@x.example", Reason.BOUNCE)
    email = queued("stall", "berta", "carl@elsewhere.example")
    job = claim_one(Email)
    if when == "at an attempt before":
        server.to_recipients["stall"] = "450 busy"
        server_says_later(job)
        del server.to_recipients["stall"]
        job = claim_one(Email)
    how(job)
    run_mail()
    return fresh(email)


def server_says_later(job):
    with pytest.raises(Exception, match="450"):
        job.run()
    job.release()


@pytest.mark.parametrize("how", [while_it_was_sent, while_it_was_run])
@pytest.mark.parametrize("when", ["at an attempt before", "never before"])
def test_who_may_not_have_it_is_not_in_doubt_with_those_who_may(server, settings, how, when):
    email = kept_back(server, settings, how, when)
    others = {"berta": ("suppressed", None), "carl": ("not allowed", None)}
    assert email.mail_state == "in doubt"
    assert outcomes(email) == {"stall": ("in doubt", None), **others}
    assert mark_as_sent(email)
    run_mail()
    assert outcomes(fresh(email)) == {"stall": ("delivered", None), **others}
    assert (fresh(email).status, fresh(email).mail_state) == (Status.DONE, "partly sent")


def test_where_nobody_may_have_it_there_is_no_doubt(server):
    email = queued("berta")
    while_it_was_run(claim_one(Email))
    Suppression.objects.suppress("berta@x.example", Reason.BOUNCE)
    [told] = DryRun().lines()
    assert "in doubt" not in told
    run_mail()
    assert (fresh(email).mail_state, outcomes(fresh(email))) == (
        "failed",
        {"berta": ("suppressed", None)},
    )


def test_what_a_lost_worker_had_claimed_and_not_begun_to_send_is_in_no_doubt(server):
    emails = [queued("anna") for _ in range(3)]
    jobs = Email.objects.claim(limit=3, owner="lost")
    assert reap_owner(table(Email), "lost") == len(jobs) == 3
    told = DryRun()
    assert ["in doubt" in line for line in told.lines()] == [False] * 3
    assert told.would_be_sent == 3
    run_mail()
    assert [fresh(email).mail_state for email in emails] == ["sent"] * 3
    assert server.got("anna") == 3


def test_who_was_refused_is_not_asked_again_with_those_who_were_put_off(server):
    email = sent("stall", "refuse", "defer")
    assert mark_as_sent(email)
    del server.to_recipients["refuse"]
    run_mail()  # once more put off
    del server.to_recipients["defer"]
    email = retried(email)
    assert (server.got("refuse"), server.got("defer")) == (0, 1)
    assert outcomes(email)["refuse"] == ("refused", 550)
    assert email.mail_state == "partly sent"


def test_who_was_put_off_gets_all_other_attempts_once_a_person_has_spoken(server):
    email = queued("stall", "defer")
    overwrite(email, attempts=Email.policy().max_attempts - 1)
    run_mail()
    assert mark_as_sent(fresh(email))
    run_mail()
    email = fresh(email)
    assert (email.status, email.attempts) == (Status.DELAYED, 2)


def test_who_has_it_sent_again_asks_for_those_who_were_refused_as_well(server):
    email = sent("stall", "refuse")
    server.stalls = False
    server.to_recipients.clear()
    Email.objects.filter(pk=email.pk).kick()
    run_mail()
    assert (server.got("stall"), server.got("refuse")) == (1, 1)


def test_what_is_in_doubt_for_the_rest_is_held_and_reads_so_too(server):
    server.to_recipients["stall"] = "450 busy"
    email = sent("anna", "stall")
    del server.to_recipients["stall"]
    email = retried(email)
    assert email.mail_state == "in doubt"
    assert outcomes(email) == {"anna": ("delivered", 250), "stall": ("in doubt", None)}
    assert mark_as_sent(email)
    run_mail()
    assert fresh(email).mail_state == "sent"


def test_what_is_erased_meanwhile_can_be_marked_all_the_same(server):
    email = sent("stall")
    assert erase([email])
    assert mark_as_sent(email)
    run_mail()
    assert fresh(email).mail_state == "sent"


def test_a_person_who_comes_too_late_changes_nothing(server, browser):
    email = sent("stall")
    Email.objects.filter(pk=email.pk).kick()
    assert not mark_as_sent(email)
    claim_one(Email)
    assert not mark_as_sent(email)
    assert "1 skipped: not in doubt" in act(browser, "settle_selected", email)
    Email.objects.filter(pk=email.pk).cancel()
    assert not mark_as_sent(email)
    assert archive.archive(table(Email)) == 0


def test_what_failed_is_not_marked_as_sent(server, browser):
    email = sent("refuse")
    assert "Mark as sent" not in page(browser, email).split("<form", 1)[1].split("Recipients")[0]
    act(browser, "settle_selected", email)
    assert fresh(email).mail_state == "failed"


def test_it_has_a_permission_of_its_own(server, client):
    email = sent("stall")
    user = User.objects.create_user("agent", is_staff=True)
    names = ["view_email", "retry_email", "bury_email"]
    user.user_permissions.set(Permission.objects.filter(codename__in=names))
    client.force_login(user)
    try:
        assert "Mark as sent" not in page(client, email)
        act(client, "settle_selected", email)
        assert fresh(email).mail_state == "in doubt"
        user.user_permissions.add(Permission.objects.get(codename="settle_email"))
        act(client, "settle_selected", email)
        assert fresh(email).status == Status.READY
    finally:
        client.logout()
        LogEntry.objects.all().delete()
        user.delete()


def test_who_was_deferred_meanwhile_is_tried_again_once_a_person_has_spoken(server):
    email = sent("stall", "defer")
    assert outcomes(email) == {"stall": ("in doubt", None), "defer": ("deferred", 450)}
    assert email.status == Status.BURIED
    assert mark_as_sent(email)
    server.to_recipients.clear()
    run_mail()
    assert fresh(email).mail_state == "sent"
    assert [one.recipients for one in server.received] == [["defer@x.example"]]
