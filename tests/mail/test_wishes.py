"""When and in which order mail wants to be sent, and until when: by arguments, and by headers."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from django.core.exceptions import ValidationError

from django_dbqueue.mail.backends import EmailBackend
from django_dbqueue.mail.models import Email
from django_dbqueue.states import Status
from tests.kit.inline_worker import work_off
from tests.kit.jobs import fresh
from tests.kit.mail import USING, letter, queue_all, queued
from tests.kit.processes import worker
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.usefixtures("db_rows")

MAIL = "dbqueue_mail.email"
SOON = datetime.now(UTC) + timedelta(hours=1)
LATER = SOON + timedelta(hours=1)


def row(**headers):
    """The row of a message that was sent the usual way, with headers."""
    given = {f"X-DBQueue-{name.replace('_', '-')}": value for name, value in headers.items()}
    queue_all([letter("anna", headers=given)])
    return Email.objects.latest("pk")


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        ("urgent", ("urgent", 0)),
        (" High ", ("default", 512)),
        ("normal", ("default", 1024)),
        ("low", ("default", 4096)),
        ("7", ("default", 7)),
        ("4294967295", ("default", 2**32 - 1)),
    ],
)
def test_a_header_says_how_urgent_a_mail_is(wish, expected):
    email = row(Priority=wish)
    assert (email.queue, email.priority) == expected


def test_headers_say_when_a_mail_is_due_until_when_and_in_which_queue():
    email = row(Scheduled_Time=SOON.isoformat(), Expires_At=LATER.isoformat(), Queue="bulk")
    assert (email.retry_at, email.expires_at, email.queue) == (SOON, LATER, "bulk")
    assert email.status == Status.DELAYED
    assert email.mail_state == f"scheduled for {SOON:%Y-%m-%d %H:%M}"


def test_our_headers_are_never_delivered():
    email = row(Priority="urgent", Scheduled_Time=SOON.isoformat())
    assert "dbqueue" not in email.message.lower()
    assert "dbqueue" not in email.to_message().message().as_string().lower()


def test_arguments_go_before_headers():
    message = letter("anna", headers={"X-DBQueue-Priority": "low", "x-dbqueue-queue": "bulk"})
    email = Email.from_message(message, priority="high", scheduled_time=SOON)
    assert (email.priority, email.queue, email.retry_at) == (512, "bulk", SOON)
    assert Email.from_message(message, queue="newsletter").queue == "newsletter"
    assert Email.from_message(message, "", "newsletter").queue == "newsletter"
    assert Email.from_message(message, queue="").queue == "bulk"


def test_the_queue_of_a_backend_is_for_messages_that_name_none():
    letters = [letter(), letter(headers={"X-DBQueue-Queue": "bulk"})]
    assert EmailBackend(alias="x", queue="newsletter", **USING).send_messages(letters) == 2
    assert [one.queue for one in Email.objects.order_by("pk")] == ["newsletter", "bulk"]


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("Priority", "soon", r"headers\['X-DBQueue-Priority'\] must be 0 to 4294967295 or one of"),
        ("Priority", "-1", "must be 0 to 4294967295"),
        ("Priority", "4294967296", "must be 0 to 4294967295"),
        ("Scheduled-Time", "tomorrow", r"headers\['X-DBQueue-Scheduled-Time'\] must be a time"),
        ("Scheduled-Time", "2030-13-01T00:00:00Z", "must be a time"),
        ("Expires-At", "2030-01-01T00:00:00", "must have a time zone"),
        ("Expire", "x", "means nothing; known are X-DBQueue-Expires-At, X-DBQueue-Priority"),
    ],
)
def test_a_header_that_makes_no_sense_is_refused_by_name(name, value, problem):
    with pytest.raises(ValueError, match=problem):
        row(**{name: value})
    assert not Email.objects.exists()


@pytest.mark.parametrize(
    ("wishes", "problem"),
    [
        ({"priority": 1.5}, "priority must be"),
        ({"priority": True}, "priority must be"),
        ({"scheduled_time": "tomorrow"}, "scheduled_time must be a datetime"),
        ({"scheduled_time": datetime(2030, 1, 1)}, "scheduled_time must have a time zone"),
        ({"scheduled_time": LATER, "expires_at": SOON}, "expires_at must be after"),
    ],
)
def test_a_wish_that_cannot_be_granted_is_refused_by_name(wishes, problem):
    with pytest.raises(ValueError, match=problem):
        Email.from_message(letter("anna"), **wishes)


def test_a_queue_that_cannot_be_is_refused():
    with pytest.raises(ValidationError, match="queue"):
        row(Queue="a\tb")


def test_mail_that_has_expired_is_not_sent_and_says_so(server):
    old = queued("anna", wishes={"expires_at": datetime.now(UTC) - timedelta(seconds=1)})
    new = queued("berta", wishes={"expires_at": LATER})
    work_off(MAIL)
    assert [fresh(email).mail_state for email in (old, new)] == ["expired", "sent"]
    assert [one.recipients for one in server.received] == [["berta@x.example"]]


def test_urgent_mail_overtakes_bulk_mail_that_was_queued_before(database_url, server):
    server.before_answer = lambda _: time.sleep(0.01)
    messages = [letter(f"bulk{n}") for n in range(400)]
    queue_all(messages)
    with worker(database_url, MAIL, **server.environment):
        wait_until(lambda: server.received)
        seen = len(server.received)
        urgent = letter("anna", headers={"X-DBQueue-Priority": "urgent"})
        queue_all([urgent])
        wait_until(lambda: server.got("anna"))
        overtaken = len(messages) - len(server.received)
    # The jobs that were fetched ahead, and a second until new queues are looked for.
    assert overtaken > (len(messages) - seen) // 4


def test_a_worker_of_its_own_sends_urgent_mail_while_others_wait_for_a_stalled_server(
    database_url, server
):
    for number in range(5):
        queued(f"stall{number}")
    lane = f"{MAIL}:urgent"
    with (
        worker(database_url, MAIL, "--except", lane, "--threads", "2", **server.environment),
        worker(database_url, lane, **server.environment),
    ):
        wait_until(lambda: len(server.unanswered) == 2)
        urgent = [queued(f"anna{n}", wishes={"priority": "urgent"}) for n in range(10)]
        wait_until(lambda: all(fresh(email).mail_state == "sent" for email in urgent))
        assert not Email.objects.done().filter(queue="default").exists()
