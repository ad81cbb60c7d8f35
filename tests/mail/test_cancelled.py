"""Mail that was taken out before it was sent: it says so, and is forgotten as any other."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from django_dbqueue.lifecycle import archive
from django_dbqueue.mail.deliveries import Outcome
from django_dbqueue.mail.models import ArchivedEmail, Email
from django_dbqueue.mail.privacy.erase import Eraser
from django_dbqueue.states import Status
from tests.kit.jobs import fresh, overwrite, table
from tests.kit.mail import queued

pytestmark = pytest.mark.usefixtures("db_rows", "queueing")

MONTH = timedelta(days=30)


def taken_out(status, **columns):
    email = queued()
    later = timezone.now() + MONTH if status in {Status.CLAIMED, Status.DELAYED} else None
    overwrite(email, status=status, retry_at=later, **columns)
    Email.objects.filter(pk=email.pk).cancel()
    return ArchivedEmail.objects.get(pk=email.pk)


def grow_old(row):
    ArchivedEmail.objects.filter(pk=row.pk).update(finished_at=row.finished_at - MONTH)


@pytest.mark.parametrize("status", [Status.READY, Status.CLAIMED, Status.DELAYED])
def test_its_message_is_erased_and_its_row_deleted_in_time(settings, status):
    settings.DBQUEUE = {**settings.DBQUEUE, "MAIL_KEEP_BODIES": 86400}
    row = taken_out(status)
    erase = Eraser()
    assert erase(table(Email)) == 0
    grow_old(row)
    assert erase(table(Email)) == 1
    assert fresh(row).is_erased
    of_a_day = replace(table(Email), policy=replace(Email.policy(), prune_after=86400))
    assert archive.prune(of_a_day) == 1


def test_mail_that_was_buried_by_hand_before_it_ran_has_an_end_too():
    email = queued()
    Email.objects.filter(pk=email.pk).bury()
    assert fresh(email).finished_at is not None


@pytest.mark.parametrize("status", [Status.READY, Status.CLAIMED, Status.DELAYED])
def test_it_reads_cancelled_and_promises_no_retry(status):
    assert taken_out(status, attempts=1).mail_state == "cancelled"


def test_who_had_got_it_before_is_not_forgotten():
    some = {"anna@x.example": {"outcome": str(Outcome.DELIVERED)}}
    others = {"berta@x.example": {"outcome": str(Outcome.DEFERRED)}}
    row = taken_out(Status.DELAYED, attempts=1, deliveries=some | others)
    assert row.mail_state == "partly sent"
