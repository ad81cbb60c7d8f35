"""How many recipients a mailer serves in a period: one's own loops, and real workers."""

import json
import signal
import time
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from django.core.exceptions import ImproperlyConfigured

from django_dbqueue.fields import aware
from django_dbqueue.lifecycle.rates import rates_of
from django_dbqueue.mail.conf import rates_for
from django_dbqueue.mail.models import Email, Mailer
from django_dbqueue.testing import virtual_clock
from tests.kit.clock import without_use_tz
from tests.kit.jobs import fresh, start_all
from tests.kit.mail import MEMORY, deliver_to, letter, queued, run_mail, setting
from tests.kit.processes import worker
from tests.kit.rates import MAILERS_PER_SECOND, figures
from tests.kit.waiting import wait_until


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (14, "must be a dict"),
        ({"fortnight": 14}, "a period is one of second, minute, hour, day"),
        ({"second": 0}, "must allow at least 1 a second, not 0"),
        ({"second": True}, "must allow at least 1"),
        ({"second": "14"}, "must allow at least 1"),
    ],
)
def test_a_limit_that_makes_no_sense_is_named(settings, given, problem):
    with pytest.raises(ValueError, match=problem):
        rates_of(given, "LIMIT")
    settings.DBQUEUE = {"MAIL_LIMITS": {"smtp": given}}
    with pytest.raises(ImproperlyConfigured, match=r"DBQUEUE\['MAIL_LIMITS'\]\['smtp'\]"):
        rates_for("smtp")


# --- one's own loop -----------------------------------------------------------------------------


def limited(settings, **rates):
    setting(settings, MAIL_LIMITS={"smtp": rates, "default": rates})


def ask(count=1):
    return Mailer.objects.ask("smtp", count, "default")


def test_many_who_ask_at_once_get_as_many_tokens_as_there_are(db_rows, settings):
    limited(settings, day=20)
    waits = []
    start_all(*[lambda: waits.extend([ask() for _ in range(10)]) for _ in range(4)])
    assert Counter(wait == 0 for wait in waits) == {True: 20, False: 20}


def test_a_message_counts_once_for_each_recipient(db_rows, settings):
    limited(settings, hour=10)
    assert ask(6) == 0
    assert ask(5) > 0
    assert ask(4) == 0


def test_a_message_to_more_than_the_limit_goes_out_when_nothing_else_does(db_rows, settings):
    limited(settings, hour=10)
    assert ask(50) == 0
    assert ask(1) > 3600


def test_mail_over_the_limit_comes_back_uncharged(db_rows, settings):
    deliver_to(settings, 0, MEMORY)
    limited(settings, hour=2)
    emails = [queued("anna") for _ in range(3)]
    urgent = queued("berta", wishes={"priority": "urgent"})
    run_mail()
    states = [fresh(email).mail_state.partition(" ")[0] for email in [urgent, *emails]]
    assert states == ["sent", "sent", "scheduled", "scheduled"]
    waiting = fresh(emails[2])
    assert (waiting.attempts, waiting.errors) == (0, [])


def test_a_mailer_that_rests_sends_nothing_and_a_longer_rest_stays(db_rows):
    Mailer.objects.pause("smtp", 100, "421 later")
    Mailer.objects.pause("smtp", 10, "421 soon")
    assert 90 < ask() <= 110
    assert Mailer.objects.named("smtp").pause_reason == "421 later"
    Mailer.objects.resume("smtp")
    assert ask() == 0


@pytest.mark.parametrize("hour", [0, 1])  # UTC: the first 02:58 in Berlin, and the second one
def test_a_rest_is_as_long_as_it_says_in_the_hour_that_comes_twice(db_rows, hour):
    begin = datetime(2026, 10, 25, hour, 58, tzinfo=UTC)
    with without_use_tz("Europe/Berlin"), virtual_clock(begin) as clock:
        Mailer.objects.pause("smtp", 300, "421 later")
        assert Mailer.objects.named("smtp").rest == 300
        until = Mailer.objects.get().paused_until
        assert aware(until).astimezone(UTC) == begin + timedelta(seconds=300)
        clock.move(299)
        assert Mailer.objects.named("smtp").rest == 1
        clock.move(2)
        assert Mailer.objects.named("smtp").rest == 0


# --- workers ------------------------------------------------------------------------------------


def by_mailer(server):
    """When each recipient was served, by mailer."""
    found = {}
    for one in list(server.received):
        for recipient in one.recipients:
            name = recipient.partition("@")[0].rstrip("0123456789")
            found.setdefault(name, []).append(one.at)
    return found


def for_mailer(name, number):
    return Email.from_message(letter(f"{name}{number}"), using=name)


FREE_PER_SECOND = 100  # of the mailer without a limit, where a machine has time
LIMITS = {name: {"second": most} for name, most in MAILERS_PER_SECOND.items() if most}
ENVIRONMENT = {
    "DBQUEUE_MAIL_LIMITS": json.dumps(LIMITS),
    "DJANGO_SETTINGS_MODULE": "tests.kit.settings_mailers",
}


@pytest.mark.timing
@pytest.mark.proof
def test_mailers_at_their_limits_use_them_up_next_to_one_that_has_none(
    db_rows, database_url, server, settings, full
):
    seconds, waiting = (20, 100_000) if full else (4, 3_000)
    setting(settings, MAIL_LIMITS=LIMITS)
    shares = {"five": 0.1, "fourteen": 0.1, "threehundred": 0.4, "free": 0.4}
    rows = [
        for_mailer(name, number)
        for name, share in shares.items()
        for number in range(int(waiting * share))
    ]
    Email.objects.bulk_create(rows, batch_size=1000)
    # Without MAILERS the checks know of one mailer alone.
    given = ["dbqueue_mail.email", "--processes", "4", "--skip-checks"]
    with worker(database_url, *given, **ENVIRONMENT, **server.environment) as process:
        began = wait_until(lambda: server.received)[0].at + 1
        wait_until(
            lambda: time.monotonic() > began + seconds + 0.2, seconds=seconds + 30, every=0.2
        )
        process.send(signal.SIGTERM)
        process.end()
    seen, shares = by_mailer(server), {}
    for name, most in MAILERS_PER_SECOND.items():
        peak, shares[name] = figures(
            seen.get(name, []), most or 1, since=began, until=began + seconds
        )
        of = f"{shares[name]:.1%} of {most}/s used" if most else f"{shares[name]:.0f} a second"
        print(f"{name}: most in any second {peak}, {of}")
        assert most is None or peak <= most
    assert min(shares["five"], shares["fourteen"]) > 0.3
    # A machine that has no time for them proves nothing.
    if full and shares["free"] > FREE_PER_SECOND:
        assert min(shares["five"], shares["fourteen"], shares["threehundred"]) > 0.95
    assert Email.objects.filter(attempts__gt=1).count() == 0
